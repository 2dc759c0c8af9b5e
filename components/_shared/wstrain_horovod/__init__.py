"""What only ``train_horovod`` trains with: the build, the communication, the strategy."""
