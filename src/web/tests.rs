//! Which way requests go, and pages that want to do harm.

use std::time::Instant;

use super::*;

fn web(allowed: &[&str], proxy: Option<&str>) -> Web {
    let allowed = allowed.iter().map(|host| Host::parse(host).unwrap()).collect();
    Web::new(Reach { allowed, proxy: proxy.map(str::to_owned), no_proxy: None })
}

fn way(web: &Web, url: &str) -> Result<String, FetchError> {
    let (url, way) = web.way(parsed(url)?)?;
    Ok(format!("{way:?} {url}"))
}

#[test]
fn requests_to_the_public_web_are_encrypted_and_say_nothing_of_who_asks() {
    let web = web(&[], None);
    let goes = |url: &str| way(&web, url).unwrap();
    assert_eq!(goes("http://example.com/a?b#c"), "Public https://example.com/a?b");
    assert_eq!(goes("http://example.com:80/"), "Public https://example.com/");
    assert_eq!(goes("http://example.com:8080/"), "Public https://example.com:8080/");
    assert_eq!(goes(" https://EXAMPLE.com "), "Public https://example.com/");
    for url in ["https://ada@example.com/", "https://ada:secret@example.com/"] {
        let refused = way(&web, url).unwrap_err().to_string();
        assert!(
            refused.contains("a name or a password") && !refused.contains("secret"),
            "{refused}"
        );
    }
    for url in ["file:///etc/passwd", "ftp://example.com/", "data:text/plain,a", "example.com", ""]
    {
        assert!(matches!(way(&web, url), Err(FetchError::Url { .. })), "{url}");
    }
}

#[test]
fn this_machine_is_reached_only_where_the_user_has_allowed_it() {
    let none = web(&[], None);
    let private = |host: &str| Err(FetchError::Private { host: host.to_owned() });
    assert_eq!(way(&none, "http://127.1:8080/"), private("127.0.0.1"));
    assert_eq!(way(&none, "http://[::ffff:10.0.0.1]/"), private("[::ffff:a00:1]"));
    assert_eq!(way(&none, "http://localhost/"), private("localhost"));
    let some = web(&["127.0.0.1:8080"], None);
    assert_eq!(way(&some, "http://127.1:8080/x").unwrap(), "Allowed http://127.0.0.1:8080/x");
    assert_eq!(way(&some, "http://127.0.0.1/"), private("127.0.0.1"));
}

#[test]
fn a_proxy_is_no_page() {
    for proxy in ["http://ada:secret@proxy.example.com:3128", "proxy.example.com:3128"] {
        let web = web(&[], Some(proxy));
        let private = FetchError::Private { host: "proxy.example.com".to_owned() };
        assert_eq!(way(&web, "https://proxy.example.com/"), Err(private));
        assert!(way(&web, "https://example.com/").is_ok());
        assert!(!format!("{web:?}").contains("secret"));
        assert!(public_client(&web.reach).is_ok());
    }
}

/// Pages that take some libraries minutes, or all of the stack.
fn hostile() -> Vec<(&'static str, String)> {
    let formats: String =
        (0..30_000).map(|number| format!("<b id={number}><i x={number}>")).collect();
    let attributes: String = (0..200_000).map(|number| format!("a{number}=x ")).collect();
    let size = 400_000;
    let repeated = |text: &str| text.repeat(size / text.len());
    vec![
        ("div", repeated("<div>")),
        ("span", repeated("<span>")),
        ("blockquote", repeated("<blockquote>")),
        ("lists", repeated("<ul><li>x")),
        ("tables", repeated("<table><tr><td>x")),
        ("cells", repeated("<td>x<tr>")),
        ("fostered", format!("<table>{}", repeated("x<br>"))),
        ("formats", format!("{formats}{}", repeated("<p>x"))),
        ("links", repeated("<a href=x><p>")),
        ("attributes", format!("<p {attributes}>x")),
        ("unclosed", repeated("<a href=\"")),
        ("signs", repeated("<")),
        ("ends", repeated("</p></b></div>")),
        ("comments", repeated("<!--")),
        ("scripts", repeated("<script>")),
        ("drawings", repeated("<svg>")),
        ("entities", repeated("&#x41;&amp;&no")),
        ("stars", repeated("*_`[")),
        ("spaces", repeated(" \n")),
        ("code", format!("<pre>{}", repeated("`"))),
    ]
}

#[test]
fn hostile_pages_take_neither_the_stack_nor_minutes() {
    for (name, html) in hostile() {
        let began = Instant::now();
        // As small as that of the threads that do it.
        let read = std::thread::Builder::new()
            .stack_size(2 * 1024 * 1024)
            .spawn(move || page::tests::read("text/html", html.as_bytes()));
        let text = read.unwrap().join().unwrap();
        assert!(text.is_ok(), "{name}");
        // Without a fence some of them take hours.
        assert!(began.elapsed() < Duration::from_secs(60), "{name}: {:?}", began.elapsed());
    }
}
