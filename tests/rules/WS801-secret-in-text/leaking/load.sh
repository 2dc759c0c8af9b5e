az storage blob list --account-name digits --account-key "NjQgYnl0ZXMgb2YgdGV4dCBmb3IgYSB0ZXN0LCB3aGljaCBubyBhY2NvdW50IGhhcyBldmVyIGhhZCBhIHVzZQ=="
curl "https://reader:c0rrect-horse@packages.example.org/simple"
