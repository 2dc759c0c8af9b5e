"""What only ``train_deepspeed`` trains with, and the configuration it shares with the compiler."""
