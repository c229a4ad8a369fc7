package console

import (
	"math"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

func TestNumbersAsText(t *testing.T) {
	for got, want := range map[string]string{
		formatCount(0): "0", formatCount(999): "999", formatCount(1000): "1,000",
		formatCount(int64(math.MinInt64 + 1)): "-9,223,372,036,854,775,807",
		formatCount(-1234):                    "-1,234",
		formatPercent(0):                      "0 %", formatPercent(0.001): "under 1 %",
		formatPercent(0.999): "99 %", formatPercent(1): "100 %", formatPercent(math.NaN()): none,
		formatDuration(-1): none, formatDuration(1500 * time.Millisecond): "1.5 s",
		formatDuration(time.Microsecond): "under 1 ms", formatDuration(90 * time.Minute): "90 min",
		formatDuration(72 * time.Hour): "3 days",
		plural(1, "broker"):            "1 broker", plural(2000, "record"): "2,000 records",
		at(nil).Text(): none, at(new(1.5)).Machine(): "1970-01-01T00:00:01.500Z",
		at(new(math.NaN())).Text(): none, at(new(1e300)).Text(): none,
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if got := seconds(math.Inf(1)); got != -1 {
		t.Errorf("infinite seconds: got %v, want -1", got)
	}
}

// FuzzPrintable checks that any bytes are converted to valid text without control characters.
func FuzzPrintable(f *testing.F) {
	for _, seed := range []string{"plain", "\x00\x1b[31m", "\xff\xfe", "a\u202eb", "<script>"} {
		f.Add([]byte(seed), 3)
	}
	f.Fuzz(func(t *testing.T, raw []byte, most int) {
		excerpt := excerptOf(raw, max(0, most%100))
		if !utf8.ValidString(excerpt.Text) || excerpt.Bytes != len(raw) {
			t.Fatalf("%q: got %+v", raw, excerpt)
		}
		for _, r := range excerpt.Text {
			if r < ' ' && r != '\n' && r != '\t' || r == 0x7f || bidirectional(r) {
				t.Fatalf("%q: got control character %U", raw, r)
			}
		}
		if !excerpt.Hex && !excerpt.Cut &&
			strings.Count(excerpt.Text, "") != strings.Count(string(raw), "") {
			t.Fatalf("%q: got another number of characters: %q", raw, excerpt.Text)
		}
	})
}
