//! TLS to the masters.

use fredlock::fred::rustls::{ClientConfig, RootCertStore, pki_types::CertificateDer};
use fredlock::fred::types::config::{Config, ServerConfig, TlsConnector};
use fredlock::{Fencing, Redlock, Retry};

use crate::support::{eventually, server::Server, tls::TlsServer};
use crate::voters::{AT_ONCE, LONG, client, they_vote};

/// The configuration of a master whose certificate, and no other, is trusted.
fn trusting(server: &TlsServer, trusted: &TlsServer, credentials: &str) -> Config {
    let mut roots = RootCertStore::empty();
    let certificate = CertificateDer::from(trusted.certificate());
    roots.add(certificate).expect("a certificate");
    let tls = ClientConfig::builder()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let url = format!("redis://{credentials}{}", server.addr());
    let mut config = Config::from_url(&url).expect("config");
    config.tls = Some(TlsConnector::from(tls).into());
    config
}

async fn connected(configs: impl IntoIterator<Item = Config>) -> Redlock {
    let mut builder = Redlock::builder().settings(|settings| settings.retry(Retry::none()));
    for config in configs {
        builder = builder.config(config);
    }
    builder.connect().await.expect("connected")
}

/// Waits until an acquisition on the only master gives an error with this in it.
async fn says(redlock: &Redlock, what: &str) {
    eventually(what, AT_ONCE, async || {
        let refused = redlock.try_acquire(["k"], LONG).await;
        let text = refused.expect_err("not acquired").to_string();
        println!("{text}");
        text.contains(what)
    })
    .await;
}

#[tokio::test]
async fn locks_work_over_tls_with_a_certificate_that_is_trusted() {
    let mut servers = Vec::new();
    for _ in 0..3 {
        servers.push(TlsServer::start_with(&["--requirepass", "geheim"]).await);
    }
    let configs = servers.iter().map(|s| trusting(s, s, ":geheim@"));
    let redlock = connected(configs).await;
    let plain: Vec<&Server> = servers.iter().map(TlsServer::server).collect();
    they_vote(&redlock, &plain).await;
    let mut lock = redlock.acquire(["k"], LONG).await.expect("acquired");
    assert!(lock.outcomes().to_string().contains(&servers[0].addr()));
    lock.extend(LONG).await.expect("extended");
    lock.release().await.expect("released");
    // And again after the connection was lost.
    for server in &plain {
        assert!(server.kill_clients().await > 0);
    }
    they_vote(&redlock, &plain).await;
}

#[tokio::test]
async fn certificate_that_is_not_trusted_is_named_as_the_reason() {
    let server = TlsServer::start_with(&[]).await;
    let other = TlsServer::start_with(&[]).await;
    let before = server.server().commands_processed().await;
    says(
        &connected([trusting(&server, &other, "")]).await,
        "ertificate",
    )
    .await;
    // By the URL alone, the certificates of the system are trusted.
    says(
        &client([server.url()], Fencing::default()).await,
        "ertificate",
    )
    .await;
    assert_eq!(server.server().commands_processed().await, before);
}

#[tokio::test]
async fn server_that_speaks_no_tls_is_never_talked_to_in_plain_text() {
    let tls = TlsServer::start_with(&[]).await;
    let plain = Server::start().await;
    let mut config = trusting(&tls, &tls, ":geheim@");
    config.server = ServerConfig::new_centralized("127.0.0.1", plain.port());
    let before = plain.commands_processed().await;
    says(&connected([config]).await, "not connected").await;
    assert_eq!(plain.commands_processed().await, before);
}
