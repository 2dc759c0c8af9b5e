git clone --depth 1 https://github.com/example/trainer trainer
az ml job create --file job.yml
