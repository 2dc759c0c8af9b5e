"""The only reader of training scripts: modules, the programs that commands start, values, ranks, options."""
