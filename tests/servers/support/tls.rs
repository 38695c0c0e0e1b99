//! Servers that speak TLS, with a certificate made for the test.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use super::dir::Dir;
use super::port::Port;
use super::process;
use super::server::Server;

/// A server that speaks TLS on one port and, for the harness, plain text on another.
#[derive(Debug)]
pub struct TlsServer {
    server: Server,
    certificate: Certificate,
    // Claimed for as long as the server lives.
    port: Port,
}

/// A certificate that has signed itself, for `127.0.0.1`.
#[derive(Debug)]
struct Certificate(Dir);

impl TlsServer {
    /// Starts a server, with more arguments. Panics if its binary was built without TLS.
    pub async fn start_with(extra: &[&str]) -> Self {
        let port = Port::claim();
        let certificate = Certificate::create(port.number());
        let number = port.number().to_string();
        let [cert, key] = ["cert.pem", "key.pem"].map(|name| certificate.path(name));
        let mut args = vec!["--tls-port", &number, "--tls-auth-clients", "no"];
        for (option, path) in [
            ("--tls-cert-file", &cert),
            ("--tls-ca-cert-file", &cert),
            ("--tls-key-file", &key),
        ] {
            args.extend([option, path.to_str().expect("a path in UTF-8")]);
        }
        args.extend(extra);
        let args: Vec<_> = args.iter().map(ToString::to_string).collect();
        // In a task, as it panics where the server does not start: this knows the usual reason.
        let start = tokio::spawn(async move {
            Server::start_with(&args.iter().map(String::as_str).collect::<Vec<_>>()).await
        });
        match start.await {
            Ok(server) => Self {
                server,
                certificate,
                port,
            },
            Err(error) => {
                let panic = error.into_panic();
                let text = panic.downcast_ref::<String>().map_or("", String::as_str);
                // As Redis says it, and as Valkey does.
                let has_tls = !["Bad directive", "Failed finding TLS support"]
                    .iter()
                    .any(|complaint| text.contains(complaint));
                assert!(
                    has_tls,
                    "{} was built without TLS, which this test needs: take a build with it (that of \
                     `apt-get install redis-server` has it; from source: `make BUILD_TLS=yes`)\n{text}",
                    process::binary().display()
                );
                std::panic::resume_unwind(panic)
            }
        }
    }

    /// The server, in plain text.
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// `127.0.0.1:PORT` of the port that speaks TLS.
    pub fn addr(&self) -> String {
        self.port.addr()
    }

    /// `rediss://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        format!("rediss://{}", self.addr())
    }

    /// The certificate that a client has to trust, in DER.
    pub fn certificate(&self) -> Vec<u8> {
        fs::read(self.certificate.path("cert.der")).expect("certificate")
    }
}

impl Certificate {
    fn create(port: u16) -> Self {
        let certificate = Self(Dir::create(port));
        let config = "[req]\ndistinguished_name = dn\nx509_extensions = ext\nprompt = no\n\
            [dn]\nCN = fredlock test\n\
            [ext]\nbasicConstraints = critical, CA:FALSE\nsubjectAltName = IP:127.0.0.1\n";
        fs::write(certificate.path("openssl.conf"), config).expect("written");
        certificate.openssl(
            "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -noenc -days 2 \
             -config openssl.conf -keyout key.pem -out cert.pem",
        );
        certificate.openssl("x509 -in cert.pem -outform DER -out cert.der");
        certificate
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn openssl(&self, args: &str) {
        let output = Command::new("openssl")
            .args(args.split_whitespace())
            .current_dir(self.0.path())
            .output()
            .unwrap_or_else(|error| {
                panic!("this test makes a certificate with `openssl`: {error} (`apt-get install openssl`)")
            });
        assert!(
            output.status.success(),
            "openssl {args}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
}
