use reins_agent::Provider as _;
use reins_providers::{ChatProvider, ProviderConfig};
use reins_schema::{CallConfig, FailureCode};

use crate::world::EndPoint;

fn asking(model: &str, effort: Option<&str>) -> CallConfig {
    CallConfig {
        model: model.to_owned(),
        reasoning_effort: effort.map(str::to_owned),
        ..CallConfig::default()
    }
}

fn refused(config: &str) -> (String, String) {
    let config: ProviderConfig = toml::from_str(config).unwrap();
    let error = ChatProvider::new("row-1", config, EndPoint::new([]).services()).err().unwrap();
    (error.at().to_owned(), error.to_string())
}

#[test]
fn the_shipped_vendor_is_complete() {
    let deepseek = EndPoint::new([]).provider("vendor = \"deepseek\"");
    assert_eq!(deepseek.id(), "deepseek");
    assert_eq!(deepseek.aliases(), ["deepseek-official"]);
    deepseek.ready().unwrap();
    let resolved = deepseek.resolve(asking("", None)).unwrap();
    assert_eq!(resolved.config.provider, "deepseek");
    assert_eq!(resolved.config.model, "deepseek-v4-flash");
    assert_eq!(resolved.config.max_tokens, Some(256_000));
    assert_eq!(resolved.config.reasoning_effort.as_deref(), Some("high"));
    assert!(resolved.defaults.max_tokens && resolved.defaults.reasoning_effort);
    assert_eq!(resolved.context_window, Some(1_000_000));

    let own = CallConfig { max_tokens: Some(9), ..asking("deepseek-v4-pro", Some("off")) };
    let resolved = deepseek.resolve(own.clone()).unwrap();
    assert_eq!(resolved.config, CallConfig { provider: "deepseek".to_owned(), ..own });
    assert!(!resolved.defaults.max_tokens && !resolved.defaults.reasoning_effort);

    let policy = deepseek.retry_policy();
    assert_eq!(
        (policy.max_retries, policy.initial_delay_ms, policy.max_delay_ms),
        (2, 500, 10_000)
    );
    assert!(policy.codes.contains(&FailureCode::StreamClosed));
    assert!(!policy.codes.contains(&FailureCode::Quota));
}

#[test]
fn what_cannot_work_is_refused_before_any_request() {
    let deepseek = EndPoint::new([]).provider("vendor = \"deepseek\"");
    let unknown = deepseek.resolve(asking("deepseek-v4-flsh", None)).unwrap_err();
    assert_eq!(
        unknown.to_string(),
        "INVALID_REQUEST: provider `deepseek` has no model `deepseek-v4-flsh`; did you mean \
         `deepseek-v4-flash`? Its models are deepseek-v4-flash, deepseek-v4-pro; to use \
         others: `reins config set row-1.unlisted_models allow`"
    );
    let effort = deepseek.resolve(asking("deepseek-v4-pro", Some("low"))).unwrap_err();
    assert_eq!(
        effort.to_string(),
        "INVALID_REQUEST: provider `deepseek` has no effort `low`; it has off, high, max"
    );
}

#[test]
fn any_server_by_its_row() {
    let point = EndPoint::new([]);
    let config = "vendor = \"compatible\"\nbase_url = \"http://127.0.0.1:1\"\nmax_tokens = 500\n\
                  models = [{ id = \"qwen\", context_window = 32768 }]";
    let local = point.provider(config);
    assert_eq!(local.id(), "row-1");
    local.ready().unwrap();
    let resolved = local.resolve(asking("anything", Some("whatever"))).unwrap();
    assert_eq!((resolved.context_window, resolved.config.max_tokens), (None, Some(500)));
    assert_eq!(local.resolve(asking("qwen", None)).unwrap().context_window, Some(32_768));
    let named = point.provider("vendor = \"deepseek\"\nid = \"mirror\"");
    assert_eq!((named.id(), named.aliases().len()), ("mirror", 0));
    let keyed = format!("{config}\napi_key_env = \"LOCAL_KEY\"");
    let failure = point.provider(&keyed).ready().unwrap_err();
    assert!(failure.message.contains("set the environment variable LOCAL_KEY"), "{failure}");
}

#[test]
fn an_address_that_is_none() {
    for base in ["api.deepseek.com", "http://", "https:///v1", "http://a b", "http://a?x=1"] {
        let config = format!("vendor = \"deepseek\"\nbase_url = \"{base}\"");
        let (at, message) = refused(&config);
        assert_eq!(at, "base_url");
        assert!(message.starts_with("is no base URL such as `https://"), "{message}");
    }
    let (at, message) = refused("vendor = \"deepseek\"\nbase_url = \"https://me:hidden@host/v1\"");
    assert_eq!(at, "base_url");
    assert_eq!(message, "holds a name or password; a key belongs in `api_key`");
    let variable = "vendor = \"compatible\"\nbase_url_env = \"LOCAL_URL\"";
    let failure = EndPoint::new([]).provider(variable).ready().unwrap_err();
    assert!(failure.message.contains("or the environment variable LOCAL_URL"), "{failure}");
}

#[test]
fn rows_that_cannot_work() {
    let cases = [
        ("vendor = \"deepsek\"", "vendor", "there is no vendor `deepsek`"),
        ("vendor = \"compatible\"", "base_url", "vendor `compatible` needs a base URL"),
        ("vendor = \"deepseek\"\nid = \"a/b\"", "id", "`a/b` cannot stand before the `/`"),
        ("vendor = \"deepseek\"\neffort = \"low\"", "effort", "`low` is none of off, high, max"),
        ("vendor = \"deepseek\"\nidle_timeout_ms = 0", "idle_timeout_ms", "0 is not between 1 and"),
        ("vendor = \"deepseek\"\nmax_tokens = 0", "max_tokens", "at least 1 token"),
        (
            "vendor = \"deepseek\"\nheaders = { Authorization = \"x\" }",
            "headers.Authorization",
            "a key belongs in `api_key`",
        ),
        (
            "vendor = \"deepseek\"\nretry = { jitter = 2.0 }",
            "retry.jitter",
            "2 is not between 0.0 and 1.0",
        ),
        (
            "vendor = \"deepseek\"\nretry = { codes = [\"SERVER\", \"SERVER\"] }",
            "retry.codes[1]",
            "`SERVER` is there twice",
        ),
        (
            "vendor = \"deepseek\"\nretry = { max_delay_ms = 100 }",
            "retry.max_delay_ms",
            "100 is not between 500 and",
        ),
    ];
    for (config, field, words) in cases {
        let (at, message) = refused(config);
        assert_eq!(at, field, "{message}");
        assert!(message.contains(words), "{message}");
    }
}

#[test]
fn what_may_hold_a_key_is_not_repeated() {
    let row = "vendor = \"compatible\"\n";
    for field in ["api_key_env", "base_url_env"] {
        let said = refused(&format!("{row}base_url = \"http://h\"\n{field} = \"sk-SECRET\""));
        assert_eq!(said.0, field);
        assert!(said.1.contains("is no name of an environment variable"), "{said:?}");
        assert!(!said.1.contains("SECRET"), "{said:?}");
    }
    let urls = [
        "u:SECRET@host/v1",
        "ftp://u:SECRET@host",
        "https://u:SECRET@h",
        "https://h/v1?key=SECRET",
    ];
    for url in urls {
        let said = refused(&format!("{row}base_url = \"{url}\""));
        assert_eq!(said.0, "base_url");
        assert!(!said.1.contains("SECRET"), "{said:?}");
    }
    let said = refused(&format!("{row}base_url = \"http://127.0.0.1:35835;\""));
    assert!(said.1.contains("is no base URL"), "{said:?}");
}
