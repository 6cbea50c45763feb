//! Just enough of Rust's grammar to tell code from comments and literals, and to count braces.

/// The lines of a file with comments and the contents of literals left out.
pub(crate) fn code_of(text: &str) -> Vec<String> {
    let mut code = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(next) = rest.chars().next() {
        let skipped = skipped(rest, code.chars().next_back());
        if skipped > 0 {
            // Line numbers stay.
            code.extend(rest[..skipped].chars().filter(|&c| c == '\n'));
            code.push(' ');
            rest = &rest[skipped..];
        } else {
            code.push(next);
            rest = &rest[next.len_utf8()..];
        }
    }
    code.lines().map(str::to_owned).collect()
}

/// How many bytes a comment or a literal takes that begins here; 0 if none does.
fn skipped(rest: &str, before: Option<char>) -> usize {
    let in_word = before.is_some_and(|c| c.is_alphanumeric() || c == '_');
    if rest.starts_with("//") {
        return rest.find('\n').unwrap_or(rest.len());
    }
    if rest.starts_with("/*") {
        return rest.find("*/").map_or(rest.len(), |end| end + 2);
    }
    if let Some(rest) = rest.strip_prefix('"') {
        return 1 + quoted(rest, '"');
    }
    if rest.starts_with('r') && !in_word {
        return raw(rest);
    }
    // A lifetime has no quote after its first letter.
    let is_char = rest.starts_with('\'')
        && (rest.starts_with("'\\") || rest[1..].chars().nth(1) == Some('\''));
    if is_char { 1 + quoted(&rest[1..], '\'') } else { 0 }
}

/// The length up to and with the closing quote.
fn quoted(rest: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in rest.char_indices() {
        if c == quote && !escaped {
            return at + 1;
        }
        escaped = c == '\\' && !escaped;
    }
    rest.len()
}

fn raw(rest: &str) -> usize {
    let hashes = rest[1..].chars().take_while(|&c| c == '#').count();
    if !rest[1 + hashes..].starts_with('"') {
        return 0;
    }
    let close = format!("\"{}", "#".repeat(hashes));
    let body = 2 + hashes;
    rest[body..].find(&close).map_or(rest.len(), |end| body + end + close.len())
}

/// Whether a function begins on a line of code.
pub(crate) fn begins_function(line: &str) -> bool {
    let words = line.split(|c: char| !(c.is_alphanumeric() || c == '_'));
    // `fn` and a name: not a type like `fn() -> u64`.
    let words: Vec<&str> = words.collect();
    words.windows(2).any(|pair| pair[0] == "fn" && !pair[1].is_empty())
}

/// How many lines a function takes that begins on a line; `None` if it has no body.
pub(crate) fn body_lines(code: &[String], from: usize) -> Option<usize> {
    let (mut parens, mut braces) = (0_i32, 0_i32);
    for (count, line) in code[from..].iter().enumerate() {
        let start = if count == 0 { line.find("fn ").unwrap_or(0) } else { 0 };
        for c in line[start..].chars() {
            match c {
                '(' | '[' => parens += 1,
                ')' | ']' => parens -= 1,
                ';' if parens == 0 && braces == 0 => return None,
                '{' if parens == 0 => braces += 1,
                '}' if parens == 0 => {
                    braces -= 1;
                    if braces == 0 {
                        return Some(count + 1);
                    }
                }
                _ => {}
            }
        }
    }
    None
}

#[test]
fn comments_and_literals_are_left_out() {
    let text = "let a = \"// {\"; // }\nlet b = '{'; /* {\n*/ let c = r#\"\"{\"#; fn f<'a>(x: &'a u8) {}\n";
    let code = code_of(text);
    assert_eq!(code.len(), 3);
    assert!(code[0].contains("let a =") && !code[0].contains(['{', '}']));
    assert!(!code[1].contains('{'));
    assert!(code[2].contains("let c =") && code[2].ends_with("fn f<'a>(x: &'a u8) {}"));
    assert!(begins_function(&code[2]) && !begins_function("let f: fn() -> u8 = g;"));
}

#[test]
fn bodies_are_counted() {
    let code = code_of(
        "trait A {\n    fn a(&self) -> [u8; 2];\n    fn b() {\n        if c {\n        }\n    }\n}\n",
    );
    assert_eq!(body_lines(&code, 1), None);
    assert_eq!(body_lines(&code, 2), Some(4));
}
