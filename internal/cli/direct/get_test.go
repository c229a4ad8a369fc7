package direct

import "testing"

// TestValuesDoNotControlTheTerminal checks that escape sequences in a value are printed as text.
func TestValuesDoNotControlTheTerminal(t *testing.T) {
	for value, want := range map[string]string{
		"plain text, \u00fc\n\tline": "plain text, \u00fc\n\tline",
		"\x1b]0;title\a\x1b[2J\r":    `\x1b]0;title\a\x1b[2J\r`,
		"\u009b2J\x9b\u202e":         `\u009b2J\x9b\u202e`,
	} {
		if got := string(printable([]byte(value))); got != want {
			t.Errorf("%q: got %q, want %q", value, got, want)
		}
	}
}
