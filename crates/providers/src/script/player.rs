//! Which answer a request gets.

use hyper::StatusCode;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::format::{Answer, Arguments, Repeat, Script};
use super::placeholder::Values;
use super::server::Request;

/// Plays a script: keeps what was played.
#[derive(Debug)]
pub struct Player {
    script: Script,
    /// How often each answer was played.
    played: Vec<u64>,
}

/// The answer to one request, with nothing left to fill in.
#[derive(Clone, Debug)]
pub struct Played {
    /// Which answer of the script, from 0.
    pub index: usize,
    /// The request's number, from 1.
    pub number: u64,
    /// The model that was asked for.
    pub model: String,
    /// Filled in: every call has an id and raw arguments.
    pub answer: Answer,
}

/// Why a request gets no answer of the script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Of HTTP.
    pub status: StatusCode,
    /// For a person.
    pub message: String,
}

#[derive(Deserialize)]
struct Body<'a> {
    #[serde(default)]
    model: String,
    #[serde(default)]
    stream: bool,
    #[serde(borrow)]
    messages: Vec<BodyMessage<'a>>,
}

#[derive(Deserialize)]
struct BodyMessage<'a> {
    role: String,
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
}

impl Player {
    /// Nothing is played yet.
    pub fn new(script: Script) -> Self {
        let played = vec![0; script.answers.len()];
        Self { script, played }
    }

    /// The next answer for this request. Answers with a `when` that fits go first, in the order of
    /// the file; then the first other one that is not used up.
    ///
    /// # Errors
    /// What is wrong with the request, or that the script is at its end.
    pub fn play(&mut self, request: &Request) -> Result<Played, Refusal> {
        let refuse = |status: StatusCode, message: String| Refusal { status, message };
        if !request.path.ends_with("/chat/completions") {
            let message = format!("only /chat/completions is scripted, not {}", request.path);
            return Err(refuse(StatusCode::NOT_FOUND, message));
        }
        if request.method != "POST" {
            return Err(refuse(
                StatusCode::METHOD_NOT_ALLOWED,
                format!("POST is expected, not {}", request.method),
            ));
        }
        let body: Body<'_> = serde_json::from_slice(&request.body).map_err(|error| {
            refuse(StatusCode::BAD_REQUEST, format!("the body is no chat request: {error}"))
        })?;
        if !body.stream {
            let message = "only streamed answers are scripted: send \"stream\": true".to_owned();
            return Err(refuse(StatusCode::BAD_REQUEST, message));
        }
        let last_message = body.messages.last().map(BodyMessage::text).unwrap_or_default();
        let Some(index) = self.choose(&last_message) else {
            let message = format!("the script has no answer for request {}", request.number);
            return Err(refuse(StatusCode::BAD_REQUEST, message));
        };
        self.played[index] += 1;
        let last_tool = body.messages.iter().rev().find(|message| message.role == "tool");
        let values = Values {
            n: request.number,
            round: self.played[index],
            last_message,
            last_tool_result: last_tool.map(BodyMessage::text).unwrap_or_default(),
        };
        let answer = filled(&self.script.answers[index], &values);
        Ok(Played { index, number: request.number, model: body.model, answer })
    }

    fn choose(&self, last_message: &str) -> Option<usize> {
        let left = |index: &usize| match self.script.answers[*index].repeat {
            Repeat::Forever => true,
            Repeat::Times(times) => self.played[*index] < times,
        };
        let when = |index: usize| self.script.answers[index].when.as_deref();
        let mut open = (0..self.script.answers.len()).filter(left);
        let fits = |index: &usize| when(*index).is_some_and(|part| last_message.contains(part));
        open.clone().find(fits).or_else(|| open.find(|index| when(*index).is_none()))
    }
}

impl BodyMessage<'_> {
    /// The content's text; the texts of its parts when it has parts.
    fn text(&self) -> String {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Content {
            Text(String),
            Parts(Vec<Part>),
            Other(serde::de::IgnoredAny),
        }
        #[derive(Deserialize)]
        struct Part {
            #[serde(default)]
            text: String,
        }
        match self.content.map(|raw| serde_json::from_str(raw.get())) {
            Some(Ok(Content::Text(text))) => text,
            Some(Ok(Content::Parts(parts))) => parts.into_iter().map(|part| part.text).collect(),
            Some(Ok(Content::Other(_)) | Err(_)) | None => String::new(),
        }
    }
}

fn filled(answer: &Answer, values: &Values) -> Answer {
    let mut answer = answer.clone();
    answer.reasoning = values.fill(&answer.reasoning, str::to_owned);
    answer.text = values.fill(&answer.text, str::to_owned);
    for (index, call) in answer.calls.iter_mut().enumerate() {
        let text = match &mut call.arguments {
            Arguments::Raw(text) => values.fill(text, json_escaped),
            Arguments::Json(value) => {
                fill_json(value, values);
                value.to_string()
            }
        };
        call.arguments = Arguments::Raw(text);
        call.id.get_or_insert_with(|| format!("call_{}_{}", values.n, index + 1));
    }
    answer
}

fn fill_json(value: &mut serde_json::Value, values: &Values) {
    match value {
        serde_json::Value::String(text) => *text = values.fill(text, str::to_owned),
        serde_json::Value::Array(items) => {
            items.iter_mut().for_each(|item| fill_json(item, values));
        }
        serde_json::Value::Object(fields) => {
            fields.values_mut().for_each(|field| fill_json(field, values));
        }
        _ => {}
    }
}

/// As it stands between the quotes of a JSON text.
fn json_escaped(text: &str) -> String {
    let quoted = serde_json::Value::from(text).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}
