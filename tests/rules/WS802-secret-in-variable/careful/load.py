import os

password = os.environ["DB_PASSWORD_1"]
PASSWORD_FIELD = "password1"
key = "backbone_layer1_conv2d_weight_224"
token: str = "<your-token-123456789>"
secret = "DB_PASSWORD_2"
if password == "w1nter-is-here":
    raise SystemExit
