package topicconfig

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// DurationMax is the longest duration of a setting, 114 years: the schema of the resources allows
// six digits of hours. Kafka allows more milliseconds; a larger value becomes DurationMax, which is
// printed as Kafka's largest value. For a setting that may be unlimited, DurationMax means
// unlimited: field maxLag of a resource has no other value with which a topic can lift the limit in
// its cluster's defaults.
const DurationMax = 999999 * time.Hour

var errOutOfRange = errors.New("out of range")

// durationProperty returns the row of a property in milliseconds. Its value must not be below the
// parameter lowest, and is truncated to DurationMax.
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

// sizeProperty returns the row of a property in bytes. Its Kafka type is int if highest fits, and
// long otherwise.
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

// limitProperty returns the row of a property in milliseconds whose largest value means no limit.
// Kafka has no other value for no limit, which is the default of these properties
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

// countProperty returns the row of a number whose Kafka type is int.
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

// flagProperty returns the row of a boolean. It accepts the spellings of Kafka's ConfigDef.
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

// withoutEffect adds to the documentation of a property that it has no effect. The documentation
// contains the reason.
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

// unlimitedIfBeyond converts DurationMax to Unlimited: parseMilliseconds returns DurationMax for
// Kafka's "no limit", which is the largest int64.
func unlimitedIfBeyond(d time.Duration) time.Duration {
	if d == DurationMax {
		return Unlimited
	}
	return d
}

// formatLimit prints a duration in milliseconds. For Unlimited and DurationMax it prints the
// parameter unlimited, which is the property's value for no limit.
func formatLimit(d time.Duration, unlimited int64) string {
	if d == Unlimited || d >= DurationMax {
		return strconv.FormatInt(unlimited, 10)
	}
	return strconv.FormatInt(d.Milliseconds(), 10)
}

// getDirtyRatio prints a double as Java does, with at least one decimal.
func getDirtyRatio(s *Settings) string {
	ratio := strconv.FormatFloat(float64(s.MinDirtyPercent)/100, 'f', -1, 64)
	if !strings.Contains(ratio, ".") {
		ratio += ".0"
	}
	return ratio
}

// setDirtyRatio rejects values that are not a whole percentage instead of rounding them silently.
func setDirtyRatio(s *Settings, value string) error {
	ratio, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
	if err != nil {
		return errors.New("not a number")
	}
	if !(ratio >= 0 && ratio <= 1) { // also false for NaN
		return errOutOfRange
	}
	percent := math.Round(ratio * 100)
	if math.Abs(percent-ratio*100) > 1e-9 {
		return errors.New("not a multiple of 0.01")
	}
	s.MinDirtyPercent = int(percent)
	return nil
}
