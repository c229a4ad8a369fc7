package topicconfig

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// DurationMax is the longest duration of a setting, 114 years, because the schema of the resources
// permits hours with six digits. Kafka permits more milliseconds. A larger value becomes
// DurationMax, which is printed as Kafka's largest value. For a setting that can be unlimited,
// DurationMax means unlimited, because field maxLag of a resource has no other value with which a
// topic can remove the limit in its cluster's defaults.
const DurationMax = 999999 * time.Hour

var errOutOfRange = errors.New("out of range")

// durationProperty returns the row for a property in milliseconds. Its value must be at least
// lowest, and is truncated to DurationMax.
func durationProperty(name, doc string, lowest int64,
	field func(*Settings) *time.Duration) property {
	return property{
		name: name, kind: "long", allowed: fmt.Sprintf("%d to 9223372036854775807", lowest),
		doc: doc,
		get: func(s *Settings) string { return formatLimit(*field(s), math.MaxInt64) },
		set: func(s *Settings, value string) error {
			d, err := parseMilliseconds(value, lowest)
			*field(s) = d
			return err
		},
	}
}

// sizeProperty returns the row for a property in bytes. Its Kafka type is int if highest fits into
// an int, and otherwise long.
func sizeProperty(name, doc string, lowest, highest int64, field func(*Settings) *int64) property {
	kind := "long"
	if highest <= math.MaxInt32 {
		kind = "int"
	}
	return property{
		name: name, kind: kind, allowed: fmt.Sprintf("%d to %d", lowest, highest), doc: doc,
		get: func(s *Settings) string { return strconv.FormatInt(*field(s), 10) },
		set: func(s *Settings, value string) error {
			n, err := parseInteger(value, lowest, highest)
			*field(s) = n
			return err
		},
	}
}

// limitProperty returns the row for a property in milliseconds whose largest value means no limit.
// That is the default of these properties, and Kafka has no other value for it
// (max.compaction.lag.ms: KIP-354).
func limitProperty(name, doc string, lowest int64, field func(*Settings) *time.Duration) property {
	return property{
		name: name, kind: "long",
		allowed: fmt.Sprintf("%d to 9223372036854775807, which means no limit", lowest), doc: doc,
		get: func(s *Settings) string { return formatLimit(*field(s), math.MaxInt64) },
		set: func(s *Settings, value string) error {
			d, err := parseMilliseconds(value, lowest)
			*field(s) = unlimitedIfBeyond(d)
			return err
		},
	}
}

// countProperty returns the row for a number with Kafka type int.
func countProperty(name, doc string, lowest, highest int64, field func(*Settings) *int) property {
	return property{
		name: name, kind: "int", allowed: fmt.Sprintf("%d to %d", lowest, highest), doc: doc,
		get: func(s *Settings) string { return strconv.Itoa(*field(s)) },
		set: func(s *Settings, value string) error {
			n, err := parseInteger(value, lowest, highest)
			*field(s) = int(n)
			return err
		},
	}
}

// flagProperty returns the row for a boolean. It accepts the spellings that Kafka's ConfigDef
// accepts.
func flagProperty(name, doc string, field func(*Settings) *bool) property {
	return property{
		name: name, kind: "boolean", allowed: "true or false", doc: doc,
		get: func(s *Settings) string { return strconv.FormatBool(*field(s)) },
		set: func(s *Settings, value string) error {
			switch strings.ToLower(strings.TrimSpace(value)) {
			case "true":
				*field(s) = true
			case "false":
				*field(s) = false
			default:
				return errors.New("not a boolean")
			}
			return nil
		},
	}
}

// withoutEffect adds to a property's documentation that the property has no effect. The
// documentation must already contain the reason.
func withoutEffect(p property) property {
	p.doc = "Without effect; stored only for Kafka's tools. " + p.doc
	return p
}

// parseInteger parses a decimal number in [lowest, highest]. It ignores surrounding spaces, as
// Kafka's ConfigDef does. Set adds the name, the value and the range to its errors.
func parseInteger(value string, lowest, highest int64) (int64, error) {
	n, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
	switch {
	case errors.Is(err, strconv.ErrRange):
		return 0, errOutOfRange
	case err != nil:
		return 0, errors.New("not an integer")
	case n < lowest || n > highest:
		return 0, errOutOfRange
	}
	return n, nil
}

// parseMilliseconds parses a duration in milliseconds, and truncates it to DurationMax. If lowest
// is -1, the value -1 means Unlimited.
func parseMilliseconds(value string, lowest int64) (time.Duration, error) {
	ms, err := parseInteger(value, lowest, math.MaxInt64)
	switch {
	case err != nil:
		return 0, err
	case ms == Unlimited:
		return Unlimited, nil
	case ms > DurationMax.Milliseconds():
		return DurationMax, nil
	}
	return time.Duration(ms) * time.Millisecond, nil
}

// unlimitedIfBeyond converts DurationMax to Unlimited. parseMilliseconds returns DurationMax for
// Kafka's "no limit", which is the largest int64.
func unlimitedIfBeyond(d time.Duration) time.Duration {
	if d == DurationMax {
		return Unlimited
	}
	return d
}

// formatLimit prints a duration in milliseconds. For Unlimited and DurationMax it prints parameter
// unlimited, which is the property's value for no limit.
func formatLimit(d time.Duration, unlimited int64) string {
	if d == Unlimited || d >= DurationMax {
		return strconv.FormatInt(unlimited, 10)
	}
	return strconv.FormatInt(d.Milliseconds(), 10)
}

// getDirtyRatio prints the ratio in the format of a Java double.
func getDirtyRatio(s *Settings) string { return javaDouble(movePoint(s.MinDirtyPercent, -2)) }

// setDirtyRatio converts a ratio to a percentage by moving the decimal point in its digits. A
// double identifies up to 15 digits, so a ratio with at most 15 digits is printed as it was set.
// Multiplying by 100 would convert 0.333 to 33.300000000000004.
func setDirtyRatio(s *Settings, value string) error {
	ratio, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
	if err != nil {
		return errors.New("not a number")
	}
	if !(ratio >= 0 && ratio <= 1) { // also false for NaN
		return errOutOfRange
	}
	s.MinDirtyPercent = movePoint(ratio, 2)
	return nil
}

// movePoint moves the decimal point in the decimal digits of number to the right, and returns the
// nearest double. The number must be from 0 to 100.
func movePoint(number float64, places int) float64 {
	digits, exponent, _ := strings.Cut(strconv.FormatFloat(math.Abs(number), 'e', -1, 64), "e")
	power, _ := strconv.Atoi(exponent)
	moved, _ := strconv.ParseFloat(fmt.Sprintf("%se%d", digits, power+places), 64)
	return moved
}

// javaDouble formats a number from 0 to 1 like Java's Double.toString: with at least one decimal,
// and with an exponent below 0.001.
func javaDouble(number float64) string {
	format, exponent := byte('f'), ""
	if number != 0 && number < 1e-3 {
		format = 'e'
	}
	text := strconv.FormatFloat(number, format, -1, 64)
	if digits, power, ok := strings.Cut(text, "e-"); ok {
		text, exponent = digits, "E-"+strings.TrimLeft(power, "0")
	}
	if !strings.Contains(text, ".") {
		text += ".0"
	}
	return text + exponent
}
