"""Certificates that a test makes for itself."""

import subprocess

from tests.binaries import binary

_KEY = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]


def make_authority(directory):
    """`ca.pem` of an authority, and what it signed for localhost: `server.pem` and `.key`."""

    def openssl(*arguments):
        subprocess.run(
            [binary("openssl"), *arguments], cwd=directory, check=True, capture_output=True
        )

    openssl(
        "req", "-x509", *_KEY, "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=test authority"
    )
    openssl("req", *_KEY, "-keyout", "server.key", "-out", "server.csr", "-subj", "/CN=localhost")
    (directory / "names").write_text("subjectAltName=DNS:localhost")
    signed_by = ["-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial"]
    openssl(
        "x509", "-req", "-in", "server.csr", *signed_by, "-extfile", "names", "-out", "server.pem"
    )
    return directory
