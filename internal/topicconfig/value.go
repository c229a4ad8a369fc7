package topicconfig

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// durationMax is the longest duration, 292 years. Kafka's milliseconds reach further; longer values
// become this one. It is whole milliseconds, so that its printed value parses to the same duration.
const durationMax = time.Duration(math.MaxInt64/1_000_000) * time.Millisecond

var errOutOfRange = errors.New("out of range")

// durationProperty is a number of milliseconds, at least lowest and truncated to durationMax.
func durationProperty(name, doc string, lowest int64,
	field func(*Settings) *time.Duration) property {
	return property{
		name: name, kind: "long", allowed: fmt.Sprintf("%d to 9223372036854775807", lowest),
		doc: doc,
		get: func(s *Settings) string { return strconv.FormatInt(field(s).Milliseconds(), 10) },
		set: func(s *Settings, value string) error {
			d, err := parseMilliseconds(value, lowest)
			*field(s) = d
			return err
		},
	}
}

// sizeProperty is a number of bytes; Kafka's type is int if the highest value fits.
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

// limitProperty is a number of milliseconds whose largest value means no limit: Kafka has no other
// value for that, and it is the default (max.compaction.lag.ms: KIP-354).
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

// countProperty is a number of Kafka's type int.
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

// flagProperty is a boolean in the spellings of Kafka's ConfigDef.
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

// withoutEffect adds to a property's documentation that it has no effect, and why.
func withoutEffect(p property) property {
	p.doc = "Kept for Kafka's tools, without effect here. " + p.doc
	return p
}

// parseInteger parses a decimal number in [lowest, highest]. It ignores spaces around it, as
// Kafka's ConfigDef does. Set adds name, value and range to its errors.
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

// parseMilliseconds parses a duration; -1, if lowest allows it, is Unlimited.
func parseMilliseconds(value string, lowest int64) (time.Duration, error) {
	ms, err := parseInteger(value, lowest, math.MaxInt64)
	switch {
	case err != nil:
		return 0, err
	case ms == Unlimited:
		return Unlimited, nil
	case ms > durationMax.Milliseconds():
		return durationMax, nil
	}
	return time.Duration(ms) * time.Millisecond, nil
}

// unlimitedIfBeyond returns Unlimited for the longest duration: Kafka's "no limit" is its largest
// long.
func unlimitedIfBeyond(d time.Duration) time.Duration {
	if d == durationMax {
		return Unlimited
	}
	return d
}

// formatLimit prints a duration in milliseconds; unlimited is the property's value for no limit.
func formatLimit(d time.Duration, unlimited int64) string {
	if d == Unlimited {
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
		return errors.New("finer than a percent")
	}
	s.MinDirtyPercent = int(percent)
	return nil
}
