//! Which way requests go, and pages that want to do harm.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::sync::Mutex;
use std::time::Instant;

use reqwest::dns::Resolve as _;

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
        assert!(public_client(&web.reach, &web.look_up).is_ok());
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

/// A server of names that says something else each time, and where it leads in
/// the end: to a port of this machine.
struct Rebinding {
    look_up: Arc<LookUp>,
    here: TcpListener,
}

impl Rebinding {
    fn new(answers: &[&[Ipv4Addr]]) -> Self {
        let here = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("loopback has ports");
        here.set_nonblocking(true).expect("a listener can be polled");
        let answers: VecDeque<Vec<IpAddr>> =
            answers.iter().map(|all| all.iter().map(|one| IpAddr::V4(*one)).collect()).collect();
        let answers = Mutex::new(answers);
        let look_up = move |_: String| {
            let next = answers.lock().expect("nobody panics with it").pop_front();
            let next = next.ok_or_else(|| std::io::Error::other("one lookup too many"));
            Box::pin(std::future::ready(next)) as futures_util::future::BoxFuture<'static, _>
        };
        Self { look_up: Arc::new(look_up), here }
    }

    /// Fetches a page of the name.
    async fn fetch(&self, proxy: Option<&str>) -> Result<Fetched, FetchError> {
        let reach = Reach { proxy: proxy.map(str::to_owned), ..Reach::default() };
        let web = Web::looking_up(reach, Arc::clone(&self.look_up));
        let port = self.here.local_addr().expect("it is bound").port();
        web.fetch(&format!("https://rebinding.example.com:{port}/")).await
    }

    /// Tells whether anybody has connected.
    fn was_reached(&self) -> bool {
        self.here.accept().is_ok()
    }
}

/// Where nobody objects to a name that leads there.
const PUBLIC: Ipv4Addr = Ipv4Addr::new(93, 184, 215, 14);

#[tokio::test]
async fn a_name_that_leads_here_once_it_was_looked_at_is_refused_when_it_is_connected_to() {
    let rebinding = Rebinding::new(&[&[PUBLIC], &[Ipv4Addr::LOCALHOST]]);
    let look_up = Arc::clone(&rebinding.look_up);
    let looking = Filtering { trusted: None, look_up };
    let seen = looking.resolve("rebinding.example.com".parse().unwrap()).await;
    assert_eq!(seen.map(Iterator::count).map_err(|error| error.to_string()), Ok(1));
    let refused = rebinding.fetch(None).await;
    let host = "rebinding.example.com".to_owned();
    assert_eq!(refused, Err(FetchError::Private { host }));
    assert!(!rebinding.was_reached());
}

#[tokio::test]
async fn of_several_addresses_only_the_public_ones_are_connected_to() {
    let rebinding = Rebinding::new(&[&[Ipv4Addr::LOCALHOST, PUBLIC, Ipv4Addr::UNSPECIFIED]]);
    let look_up = Arc::clone(&rebinding.look_up);
    let looking = Filtering { trusted: None, look_up };
    let name = "rebinding.example.com".parse().unwrap();
    let found: Vec<_> = looking.resolve(name).await.unwrap().map(|found| found.ip()).collect();
    assert_eq!(found, [IpAddr::V4(PUBLIC)]);
}

/// Without the filter the same lookup does lead here, so the tests above are
/// about something: a proxy may be on this machine.
#[tokio::test]
async fn a_lookup_decides_what_is_connected_to() {
    let rebinding = Rebinding::new(&[&[Ipv4Addr::LOCALHOST]]);
    let port = rebinding.here.local_addr().unwrap().port();
    let proxy = format!("http://proxy.example.com:{port}");
    // The answer does not matter, and there is none.
    let fetching = rebinding.fetch(Some(&proxy));
    let reached = async {
        while !rebinding.was_reached() {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        biased;
        () = reached => {}
        ended = fetching => assert!(rebinding.was_reached(), "{ended:?}"),
    }
}
