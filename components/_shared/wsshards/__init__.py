"""What every component that touches shards shares: manifest, reader, split, errors."""
