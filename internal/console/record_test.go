package console

import (
	"net/url"
	"strings"
	"testing"
)

// TestIndentedJSON checks that objects and arrays are indented, and that their numbers and strings
// do not change.
func TestIndentedJSON(t *testing.T) {
	got, ok := prettyJSON([]byte(` {"a":[1e400,"x\"{,"],"b":{}} `))
	if want := "{\n  \"a\": [\n    1e400,\n    \"x\\\"{,\"\n  ],\n  \"b\": {}\n}"; !ok ||
		string(got) != want {
		t.Errorf("got %q, %t, want %q", got, ok, want)
	}
	for _, text := range []string{"", " ", "12", `"text"`, "{", `{"a":}`, "null", "<a/>",
		strings.Repeat("[", 5000) + strings.Repeat("]", 5000)} {
		if got, ok := prettyJSON([]byte(text)); ok {
			t.Errorf("%.20q became %.20q", text, got)
		}
	}
}

// FuzzIndentedJSON checks that the estimated size, which limits memory, is never below the actual
// size.
func FuzzIndentedJSON(f *testing.F) {
	f.Add(`{"a":[1,{"b":"\\\"[,"}],"c":[]}`)
	f.Add(`[[[[]]],{}]`)
	f.Fuzz(func(t *testing.T, text string) {
		if got, ok := prettyJSON([]byte(text)); ok &&
			len(got) > indentedSize([]byte(strings.TrimSpace(text))) {
			t.Errorf("%q became %d bytes", text, len(got))
		}
	})
}

// TestBackLeadsToATopicOnly checks that the link back can only lead to a topic's page, whatever the
// parameter list contains.
func TestBackLeadsToATopicOnly(t *testing.T) {
	location := place{"orders", 1, 7}
	for list, want := range map[string]string{
		"name=orders&tab=messages&key=a%26b": "topic?key=a%26b&name=orders&tab=messages",
		"":                                   "topic?at=7&name=orders&partition=1&position=offset&tab=messages",
		"https://evil.example.com/":          "topic?at=7&name=orders&partition=1&position=offset&tab=messages",
		"name=other":                         "topic?at=7&name=orders&partition=1&position=offset&tab=messages",
		"%zz":                                "topic?at=7&name=orders&partition=1&position=offset&tab=messages",
	} {
		if got := backOf(url.Values{"list": {list}}, location); got != want {
			t.Errorf("%q: got %q, want %q", list, got, want)
		}
	}
}
