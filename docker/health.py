"""HEALTHCHECK of both images: ends with 0 when the process on this container's port is ready."""

import os
import ssl
import urllib.request

port = os.environ.get("COCOA_OPS_PORT") or os.environ.get("COCOA_PORT") or "8000"
scheme = "https" if os.environ.get("COCOA_WORKER__TLS_CERT_FILE") else "http"
# The certificate names the Service, not this address.
unchecked = ssl._create_unverified_context() if scheme == "https" else None  # noqa: S323
url = f"{scheme}://127.0.0.1:{port}/readyz"
urllib.request.urlopen(url, timeout=4, context=unchecked)  # noqa: S310
