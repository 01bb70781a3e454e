"""The few AWS calls that the local stack makes itself, signed by hand so that no SDK has to be there."""

import datetime
import hashlib
import hmac
import json
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree

REGION = "us-east-1"
# The emulator's root user. It listens on loopback only.
ACCESS_KEY, SECRET_KEY = "test", "test"


class CallFailed(Exception):
    """The emulator refused a call; the text is its own."""


@dataclass(frozen=True)
class Emulator:
    endpoint: str

    def json(self, service: str, target: str, body: dict[str, Any]) -> dict[str, Any]:
        """One call of a service that speaks JSON with a target header (DynamoDB, SSM)."""
        headers = {"Content-Type": "application/x-amz-json-1.1", "X-Amz-Target": target}
        answer = self._send("POST", service, "/", json.dumps(body).encode(), headers)
        return json.loads(answer) if answer else {}

    def invoke(self, function: str, payload: dict[str, Any]) -> Any:
        """Invokes a function and waits for its answer; an error of the function is raised."""
        path = f"/2015-03-31/functions/{urllib.parse.quote(function)}/invocations"
        answer = json.loads(self._send("POST", "lambda", path, json.dumps(payload).encode(), {}))
        if isinstance(answer, dict) and "errorMessage" in answer:
            raise CallFailed(f"{function}: {answer['errorMessage']}")
        return answer

    def make_bucket(self, name: str) -> None:
        self._send("PUT", "s3", f"/{name}", b"", {})

    def outputs(self, stack: str) -> dict[str, str]:
        """Outputs of a CloudFormation stack."""
        query = {"Action": "DescribeStacks", "Version": "2010-05-15", "StackName": stack}
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        answer = self._send("POST", "cloudformation", "/", urllib.parse.urlencode(query).encode(), headers)
        found = {}
        for member in ElementTree.fromstring(answer).iterfind(".//{*}Outputs/{*}member"):
            found[member.findtext("{*}OutputKey") or ""] = member.findtext("{*}OutputValue") or ""
        return found

    def _send(self, method: str, service: str, path: str, body: bytes, headers: dict[str, str]) -> bytes:
        request = urllib.request.Request(self.endpoint + path, data=body, method=method)
        for name, value in {**headers, **self._signature(method, service, path, body)}.items():
            request.add_header(name, value)
        try:
            with urllib.request.urlopen(request, timeout=120) as response:
                return response.read()
        except urllib.error.HTTPError as error:
            raise CallFailed(f"{service} {error.code}: {error.read().decode(errors='replace')}") from None

    def _signature(self, method: str, service: str, path: str, body: bytes) -> dict[str, str]:
        """Signature Version 4 over the host, the date and the body."""
        stamp = datetime.datetime.now(datetime.UTC).strftime("%Y%m%dT%H%M%SZ")
        digest = hashlib.sha256(body).hexdigest()
        signed = {
            "host": urllib.parse.urlsplit(self.endpoint).netloc,
            "x-amz-content-sha256": digest,
            "x-amz-date": stamp,
        }
        names = ";".join(signed)
        canonical = "\n".join(
            [method, path, "", *(f"{name}:{value}" for name, value in signed.items()), "", names, digest]
        )
        scope = f"{stamp[:8]}/{REGION}/{service}/aws4_request"
        text = "\n".join(["AWS4-HMAC-SHA256", stamp, scope, hashlib.sha256(canonical.encode()).hexdigest()])
        key = f"AWS4{SECRET_KEY}".encode()
        for part in scope.split("/"):
            key = hmac.new(key, part.encode(), hashlib.sha256).digest()
        signature = hmac.new(key, text.encode(), hashlib.sha256).hexdigest()
        return {
            "X-Amz-Date": stamp,
            "X-Amz-Content-Sha256": digest,
            "Authorization": (
                f"AWS4-HMAC-SHA256 Credential={ACCESS_KEY}/{scope}, SignedHeaders={names}, Signature={signature}"
            ),
        }
