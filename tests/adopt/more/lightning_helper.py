"""Lightning with one method that logs for all steps, metrics that count themselves, and a scaler to fit."""

import lightning as L
import torch
from lightning.pytorch.callbacks import EarlyStopping
from lightning.pytorch.loggers import CSVLogger
from sklearn.datasets import load_digits
from sklearn.preprocessing import StandardScaler
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torchmetrics import MetricCollection
from torchmetrics.classification import MulticlassAccuracy

digits = load_digits()
scaler = StandardScaler()
scaler.fit(digits.data[:1024])
rows = torch.tensor(scaler.transform(digits.data), dtype=torch.float32)
labels = torch.tensor(digits.target)


class Classifier(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(64, 10)
        self.accuracy = MulticlassAccuracy(10)
        metrics = MetricCollection([MulticlassAccuracy(10)])
        self.test_metrics = metrics.clone(prefix="test_")

    def shared_step(self, batch, stage):
        x, y = batch
        logits = self.net(x)
        loss = nn.functional.cross_entropy(logits, y)
        self.log(f"{stage}_loss", loss, prog_bar=True)
        return loss, logits, y

    def training_step(self, batch, batch_idx):
        loss, logits, y = self.shared_step(batch, "train")
        self.log("train_accuracy", (logits.argmax(1) == y).float().mean())
        return loss

    def on_train_epoch_end(self):
        self.log("norm", self.net.weight.norm())
        print(f"epoch {self.current_epoch}: {self.trainer.callback_metrics['val_loss']:.4f}")
        if self.trainer.callback_metrics["val_loss"] < 0.1:
            print({name: float(value) for name, value in self.trainer.callback_metrics.items()})

    def validation_step(self, batch, batch_idx):
        loss, logits, y = self.shared_step(batch, "val")
        self.accuracy(logits, y)
        self.log("val_accuracy", self.accuracy)
        self.log_dict({"val_top": logits.max(), "val_low": logits.min()})

    def test_step(self, batch, batch_idx):
        x, y = batch
        self.test_metrics.update(self.net(x), y)

    def on_test_epoch_end(self):
        self.log_dict(self.test_metrics)
        self.log("best", self.accuracy.compute())

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=1e-2)
        schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=1)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "monitor": "val_loss"}}


if __name__ == "__main__":
    train = DataLoader(TensorDataset(rows[:1024], labels[:1024]), batch_size=32, shuffle=True)
    held = DataLoader(TensorDataset(rows[1024:], labels[1024:]), batch_size=64)
    trainer = L.Trainer(
        max_epochs=3,
        accelerator="auto",
        devices=[0],
        callbacks=[EarlyStopping("val_loss")],
        logger=CSVLogger("logs"),
    )
    model = Classifier()
    trainer.fit(model, train, held)
    trainer.test(model, held)
