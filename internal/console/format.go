package console

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"heartwood.dev/heartwood/internal/remote"
)

// none is the text for a value that is unknown or does not apply.
const none = "–"

// formatCount formats a number with a comma between groups of three digits.
func formatCount[T ~int | ~int32 | ~int64](n T) string {
	text := strconv.FormatInt(int64(n), 10)
	sign := ""
	if strings.HasPrefix(text, "-") {
		sign, text = "-", text[1:]
	}
	for index := len(text) - 3; index > 0; index -= 3 {
		text = text[:index] + "," + text[index:]
	}
	return sign + text
}

// formatBytes formats a size with three significant digits and a binary unit.
func formatBytes[T ~int | ~int32 | ~int64](n T) string { return remote.Bytes(int64(n)) }

// formatPercent formats a ratio between 0 and 1. Only 0 is formatted as 0 %, and only 1 as 100 %.
func formatPercent(ratio float64) string {
	percent := math.Round(ratio * 100)
	switch {
	case math.IsNaN(ratio) || math.IsInf(ratio, 0):
		return none
	case ratio > 0 && percent < 1:
		return "under 1 %"
	case ratio < 1 && percent > 99:
		percent = 99
	}
	return strconv.Itoa(int(percent)) + " %"
}

// formatDuration formats a duration in one unit, with at most three significant digits.
func formatDuration(d time.Duration) string {
	switch {
	case d < 0:
		return none
	case d < time.Millisecond:
		return "under 1 ms"
	case d < time.Second:
		return strconv.FormatInt(d.Milliseconds(), 10) + " ms"
	case d < 10*time.Second:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d < 2*time.Minute:
		return fmt.Sprintf("%.0f s", d.Seconds())
	case d < 2*time.Hour:
		return fmt.Sprintf("%.0f min", d.Minutes())
	case d < 48*time.Hour:
		return fmt.Sprintf("%.0f h", d.Hours())
	}
	return fmt.Sprintf("%.0f days", d.Hours()/24)
}

// formatRemaining formats an estimate of the remaining time, without milliseconds.
func formatRemaining(d time.Duration) string {
	if d >= 0 && d < time.Second {
		return "under 1 s"
	}
	return formatDuration(d)
}

// seconds converts a number of seconds to a duration. s can be any float.
func seconds(s float64) time.Duration {
	if math.IsNaN(s) || math.Abs(s) > math.MaxInt64/float64(time.Second)/2 {
		return -1
	}
	return time.Duration(s * float64(time.Second))
}

// instant is a time on a page. It becomes an HTML <time> element with the text in UTC, which a
// script replaces with the reader's local time.
type instant struct{ time.Time }

// at returns the instant for a Unix time in seconds, or the zero instant if unix is nil.
func at(unix *float64) instant {
	if unix == nil || math.IsNaN(*unix) || math.Abs(*unix) > 1<<40 {
		return instant{}
	}
	return instant{time.UnixMilli(int64(*unix * 1000)).UTC()}
}

// Machine returns the value of the attribute datetime.
func (i instant) Machine() string { return i.UTC().Format("2006-01-02T15:04:05.000Z") }

// Text returns the time in UTC.
func (i instant) Text() string {
	if i.IsZero() {
		return none
	}
	return i.UTC().Format("2006-01-02 15:04:05")
}

// plural returns a count with a noun, such as "1 broker" and "3 brokers".
func plural[T ~int | ~int32 | ~int64](n T, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return formatCount(n) + " " + noun + "s"
}

// cut truncates text to at most the given number of bytes, without splitting a character. It
// reports whether text was truncated.
func cut(text string, most int) (string, bool) {
	if len(text) <= most {
		return text, false
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most], true
}

// printable returns bytes as text. In UTF-8, control characters are replaced; any other bytes are
// returned as hexadecimal digits.
func printable(raw []byte) (text string, hex bool) {
	if !utf8.Valid(raw) {
		return fmt.Sprintf("% x", raw), true
	}
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return r
		case r < ' ':
			return 0x2400 + r // the symbol for the control character
		case r == 0x7f:
			return 0x2421
		case bidirectional(r):
			return 0xfffd // r could change the displayed order of the text
		}
		return r
	}, string(raw)), false
}

// bidirectional reports whether a character changes the direction of the text that follows it.
func bidirectional(r rune) bool {
	return 0x202a <= r && r <= 0x202e || 0x2066 <= r && r <= 0x2069 || r == 0x200e || r == 0x200f
}

// textOf formats a value for a URL.
func textOf(value any) string { return fmt.Sprint(value) }
