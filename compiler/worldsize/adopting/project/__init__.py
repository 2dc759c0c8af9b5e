"""The project around an adopted script: code, environment and spec."""
