import lightning as L
from lightning.pytorch.demos.boring_classes import BoringDataModule, BoringModel

trainer = L.Trainer(accelerator="gpu", devices=4, strategy="ddp")
trainer.fit(BoringModel(), datamodule=BoringDataModule())
