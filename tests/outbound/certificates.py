"""Certificate authorities for the length of a test run."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


class Authority:
    """A certificate authority; `pem` is its own certificate."""

    def __init__(self, ended: timedelta = timedelta()) -> None:
        """What it certifies has ended so long ago; by default it is valid for a day."""
        self._ended = ended
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _named("an authority for tests")
        # Python 3.13 and later refuse an authority that does not say that it signs certificates.
        is_authority = (x509.BasicConstraints(ca=True, path_length=0), _signs_certificates())
        self._itself = self._sign(self._name, self._key, *is_authority)
        self.pem = self._itself.public_bytes(serialization.Encoding.PEM).decode()

    def certify(self, file: Path, *hosts: str) -> None:
        """Write a certificate for names and addresses, and its key, into one file."""
        key = ec.generate_private_key(ec.SECP256R1())
        names = x509.SubjectAlternativeName([_general_name(host) for host in hosts])
        is_host = x509.BasicConstraints(ca=False, path_length=None)
        certificate = self._sign(_named(hosts[0]), key, is_host, names, ended=self._ended)
        file.touch(0o600)
        file.write_bytes(
            certificate.public_bytes(serialization.Encoding.PEM)
            + key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )

    def trust(self) -> ssl.SSLContext:
        """The TLS context of a client that trusts this authority only."""
        return ssl.create_default_context(cadata=self.pem)

    def _sign(
        self,
        subject: x509.Name,
        key: ec.EllipticCurvePrivateKey,
        *extensions: x509.ExtensionType,
        ended: timedelta = timedelta(),
    ) -> x509.Certificate:
        now, ours = datetime.now(UTC) - ended, self._key.public_key()
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + timedelta(days=1))
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(ours), critical=False)
        )
        for extension in extensions:
            is_critical = not isinstance(extension, x509.SubjectAlternativeName)
            builder = builder.add_extension(extension, critical=is_critical)
        return builder.sign(self._key, hashes.SHA256())


def certified(
    host: str, folder: Path, *aliases: str, ended: timedelta = timedelta()
) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Give a server's context for `host` and its `aliases`, and a client's context that trusts it and nothing else.

    `server.pem` in the folder holds the certificate and its key. See `Authority` about `ended`.
    """
    authority, file = Authority(ended), folder / "server.pem"
    authority.certify(file, host, *aliases)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(file)
    return server, authority.trust()


def _named(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _signs_certificates() -> x509.KeyUsage:
    others = ("digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement")
    others += ("crl_sign", "encipher_only", "decipher_only")
    return x509.KeyUsage(key_cert_sign=True, **dict.fromkeys(others, False))


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)
