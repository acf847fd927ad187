"""Access tokens, which those who know the secret make and check without asking anybody."""

import base64
import hashlib
import hmac
import json
import time

from topics.link import Refused

ACCESS, REFRESH = 30 * 60, 30 * 24 * 3600


def encoded(content):
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def signature(secret, text):
    return encoded(hmac.new(secret.encode(), text.encode(), hashlib.sha256).digest())


def made(secret, use, life):
    text = f'{encoded(b"{}")}.{encoded(json.dumps({"use": use, "until": time.time() + life}).encode())}'
    return f"{text}.{signature(secret, text)}"


def pair(secret):
    return {"accessToken": made(secret, "access", ACCESS), "refreshToken": made(secret, "refresh", REFRESH)}


def check(secret, token, use="access"):
    text, _, signed = str(token).rpartition(".")
    if not hmac.compare_digest(signature(secret, text), signed):
        raise Refused(401, "Invalid token")
    content = text.partition(".")[2]
    content = json.loads(base64.urlsafe_b64decode(content + "=" * (-len(content) % 4)))
    if content["use"] != use or content["until"] < time.time():
        raise Refused(401, "Token expired")
