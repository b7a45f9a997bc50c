//! Users whom a server of NATS does not know, and takes at an operator's word: the
//! files that `nsc` would make.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use nkeys::KeyPair;
use serde_json::{Value, json};

/// An operator with one account.
pub(crate) struct Operator {
    operator: KeyPair,
    account: KeyPair,
}

impl Operator {
    pub(crate) fn new() -> Self {
        Self { operator: KeyPair::new_operator(), account: KeyPair::new_account() }
    }

    /// Returns what a server is configured with that believes this operator.
    pub(crate) fn configuration(&self) -> String {
        let own = token(&self.operator, &self.operator, json!({"type": "operator"}));
        let limits = json!({
            "subs": -1, "data": -1, "payload": -1, "imports": -1, "exports": -1,
            "wildcards": true, "conn": -1, "leaf": -1,
        });
        let mut storing = limits.clone();
        for limit in ["mem_storage", "disk_storage", "streams", "consumer"] {
            storing[limit] = (-1).into();
        }
        // What the server has for itself: without one it stores nothing for others, and
        // there it must not.
        let system = KeyPair::new_account();
        let known = [(&self.account, storing), (&system, limits)].map(|(account, limits)| {
            let may = json!({"type": "account", "limits": limits});
            let token = token(&self.operator, account, may);
            format!("{}: {token}", account.public_key())
        });
        let (system, known) = (system.public_key(), known.join("\n"));
        format!(
            "operator: {own}\nsystem_account: {system}\nresolver: MEMORY\n\
             resolver_preload {{\n{known}\n}}"
        )
    }

    /// Returns the text of a file of credentials.
    pub(crate) fn credentials(&self) -> String {
        let user = KeyPair::new_user();
        let none = json!({});
        let may = json!({
            "type": "user", "pub": none, "sub": none, "subs": -1, "data": -1, "payload": -1,
        });
        let (token, seed) = (token(&self.account, &user, may), user.seed());
        let seed = seed.expect("who has made a key has its seed");
        format!(
            "-----BEGIN NATS USER JWT-----\n{token}\n------END NATS USER JWT------\n\n\
             -----BEGIN USER NKEY SEED-----\n{seed}\n------END USER NKEY SEED------\n"
        )
    }
}

/// Says with the key of one what another is.
fn token(issuer: &KeyPair, subject: &KeyPair, mut may: Value) -> String {
    may["version"] = 2.into();
    let (by, of) = (issuer.public_key(), subject.public_key());
    let claims = json!({"jti": of, "iat": 1, "iss": by, "sub": of, "name": "test", "nats": may});
    let header = json!({"typ": "JWT", "alg": "ed25519-nkey"});
    let text = [header, claims].map(|it| BASE64_URL_SAFE_NO_PAD.encode(it.to_string())).join(".");
    let signature = issuer.sign(text.as_bytes()).expect("the issuer has its key");
    format!("{text}.{}", BASE64_URL_SAFE_NO_PAD.encode(signature))
}
