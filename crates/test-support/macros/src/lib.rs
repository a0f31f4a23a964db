//! The attribute of tests that have a database.

use proc_macro::{Delimiter, Group, TokenStream, TokenTree};

/// `tokio::test` for a function with parameters: `#[support::test] async fn a_rule(database: Database, client: &Client)`.
///
/// A parameter is made by `new()` of its type, which is fallible for `testing::Database`. A reference to a client is the
/// client of the first parameter. A first option such as `with_connections(1)`, or `self::limited(1)` of the test's own module,
/// makes the first parameter instead of `new()`. Other options go to `tokio::test`. A test that does not fail ends by `end()` of
/// a first parameter of the type `Database`, which stops the runners that it started.
///
/// # Panics
///
/// Without parameters, or on anything but an async function.
#[proc_macro_attribute]
#[expect(clippy::expect_used, clippy::panic, reason = "a wrong use does not compile")]
pub fn test(options: TokenStream, function: TokenStream) -> TokenStream {
    let mut tokens: Vec<TokenTree> = function.into_iter().collect();
    let mut groups = tokens.iter().enumerate().filter_map(|(place, token)| match token {
        TokenTree::Group(group) => Some((place, group.clone())),
        _ => None,
    });
    let (place, parameters) =
        groups.find(|(_, group)| group.delimiter() == Delimiter::Parenthesis).expect("a function with parameters");
    let (last, body) = groups.next_back().expect("a function with a body");
    let text = parameters.stream().to_string();
    let (first, kind) = text.split_once(':').expect("a parameter");
    let is_of_the_kit = |kind: &str| kind.trim().starts_with("testing");
    let client = if is_of_the_kit(kind) { "client()" } else { "client" };
    let mut options: Vec<TokenTree> = options.into_iter().collect();
    // `with(…)` or `self::with(…)`: the name ends before the first group.
    let name = options.iter().take_while(|token| !matches!(token, TokenTree::Group(_) | TokenTree::Literal(_))).count();
    let is_constructor = matches!(options.get(name), Some(TokenTree::Group(_)));
    let constructor = match is_constructor {
        true => options.drain(..=name).collect::<TokenStream>().to_string(),
        false => "new()".to_owned(),
    };
    let is_function = is_constructor && name > 1;
    let made = |parameter: &str| match parameter.split_once(':') {
        Some((name, kind)) if kind.trim().starts_with('&') => format!("let {name}: {kind} = &{first}.{client};"),
        Some((name, kind)) if is_of_the_kit(kind) => format!("let {name} = <{kind}>::new().await.unwrap();"),
        Some((name, _)) if is_function => format!("let {name} = {constructor}.await;"),
        Some((name, kind)) => format!("let {name} = <{kind}>::{constructor}.await;"),
        None => panic!("a parameter without a type: {parameter}"),
    };
    let parameters = text.split(',').filter(|parameter| !parameter.trim().is_empty());
    let mut made: TokenStream = parameters.map(made).collect::<String>().parse().expect("statements");
    made.extend(body.stream());
    if kind.split(',').next().is_some_and(|kind| kind.trim() == "Database") {
        // A body may end in a panic or in a loop that returns.
        let end = format!("#[allow(unreachable_code)] let () = {first}.end().await;");
        made.extend(end.parse::<TokenStream>().expect("a statement"));
    }
    tokens[place] = Group::new(Delimiter::Parenthesis, TokenStream::new()).into();
    let mut new_body = Group::new(Delimiter::Brace, made);
    new_body.set_span(body.span());
    tokens[last] = new_body.into();
    let options: TokenStream = options.into_iter().skip(usize::from(is_constructor)).collect();
    let mut test: TokenStream = format!("#[::tokio::test({options})]").parse().expect("an attribute");
    test.extend(tokens);
    test
}
