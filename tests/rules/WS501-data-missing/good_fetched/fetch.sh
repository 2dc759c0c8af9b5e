mkdir -p flowers && curl -sSL https://example.com/flowers.tar.gz | tar -xz -C flowers
