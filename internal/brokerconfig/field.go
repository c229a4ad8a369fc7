package brokerconfig

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// field converts between the text of a setting and a field of the LogCluster. Its functions can
// create empty parent structs; tidy removes them.
type field struct {
	allowed string // description of the allowed values, for errors and documentation
	// get returns the field's value. Result ok is false if the field is not set.
	get   func(spec *v1alpha1.LogClusterSpec) (value string, ok bool)
	set   func(spec *v1alpha1.LogClusterSpec, value string) error
	reset func(spec *v1alpha1.LogClusterSpec)
}

// Get returns the values of the settings with a field of their own that the LogCluster sets, by
// name.
func Get(spec *v1alpha1.LogClusterSpec) map[string]string {
	spec = spec.DeepCopy()
	set := map[string]string{}
	for _, p := range All() {
		if p.field == nil {
			continue
		}
		if value, ok := p.field.get(spec); ok {
			set[p.Name] = value
		}
	}
	if spec.AdminAPI == v1alpha1.AdminReadOnly {
		set[deleteTopicEnable] = "false"
		delete(set, autoCreateTopics) // ineffective, because no topic may be created
	}
	return set
}

// Set sets the field of p. p must have a field of its own.
func (p *Property) Set(spec *v1alpha1.LogClusterSpec, value string) error {
	err := p.field.set(spec, strings.TrimSpace(value))
	tidy(spec)
	if err != nil {
		return fmt.Errorf("invalid value %s for configuration %s: %w (allowed: %s)", value, p.Name,
			err, p.field.allowed)
	}
	return nil
}

// Reset removes the field of p. p must have a field of its own.
func (p *Property) Reset(spec *v1alpha1.LogClusterSpec) {
	p.field.reset(spec)
	tidy(spec)
}

// tidy removes empty structs from the spec.
func tidy(spec *v1alpha1.LogClusterSpec) {
	if spec.Groups != nil {
		removeEmpty(&spec.Groups.OffsetsTopic)
	}
	removeEmpty(&spec.Groups)
	if spec.Transactions != nil {
		removeEmpty(&spec.Transactions.StateTopic)
	}
	removeEmpty(&spec.Transactions)
	removeEmpty(&spec.Cleaner)
	removeEmpty(&spec.Replication)
	removeEmpty(&spec.TopicDefaults)
}

func removeEmpty[T any](group **T) {
	if *group != nil && reflect.ValueOf(**group).IsZero() {
		*group = nil
	}
}

// group returns *pointer. If it is nil, group creates the struct first.
func group[T any](pointer **T) *T {
	if *pointer == nil {
		*pointer = new(T)
	}
	return *pointer
}

var (
	errNotNumber  = errors.New("not a whole number")
	errOutOfRange = errors.New("out of range")
)

func parseNumber(value string, lowest, highest int64) (int64, error) {
	n, err := strconv.ParseInt(value, 10, 64)
	switch {
	case errors.Is(err, strconv.ErrRange), err == nil && (n < lowest || n > highest):
		return 0, errOutOfRange
	case err != nil:
		return 0, errNotNumber
	}
	return n, nil
}

// number returns the field for a setting that is an integer. write converts the integer to the
// field's type, and read converts it back.
func number[T any](lowest, highest int64, locate func(*v1alpha1.LogClusterSpec) **T,
	read func(T) int64, write func(int64) T) *field {
	return &field{
		allowed: fmt.Sprintf("%d to %d", lowest, highest),
		get: func(spec *v1alpha1.LogClusterSpec) (string, bool) {
			if *locate(spec) == nil {
				return "", false
			}
			return strconv.FormatInt(read(**locate(spec)), 10), true
		},
		set: func(spec *v1alpha1.LogClusterSpec, value string) error {
			n, err := parseNumber(value, lowest, highest)
			if err == nil {
				written := write(n)
				*locate(spec) = &written
			}
			return err
		},
		reset: func(spec *v1alpha1.LogClusterSpec) { *locate(spec) = nil },
	}
}

func count(lowest, highest int64, locate func(*v1alpha1.LogClusterSpec) **int32) *field {
	return number(lowest, highest, locate, func(n int32) int64 { return int64(n) },
		func(n int64) int32 { return int32(n) })
}

// duration returns the field for a setting that is a duration in the given unit.
func duration(unit, lowest, highest time.Duration,
	locate func(*v1alpha1.LogClusterSpec) **metav1.Duration) *field {
	return number(int64(lowest/unit), int64(highest/unit), locate,
		func(d metav1.Duration) int64 { return int64(d.Duration / unit) },
		func(n int64) metav1.Duration {
			return metav1.Duration{Duration: time.Duration(n) * unit}
		})
}

func size(lowest, highest int64, locate func(*v1alpha1.LogClusterSpec) **resource.Quantity) *field {
	return number(lowest, highest, locate, func(q resource.Quantity) int64 { return q.Value() },
		func(n int64) resource.Quantity { return *resource.NewQuantity(n, resource.BinarySI) })
}

// rateUnlimited is Kafka's default for rates of type double.
const rateUnlimited = "1.7976931348623157E308"

// rate returns the field for a rate in bytes per second, which is a double in Kafka. A value that
// does not fit into an int64 means no limit, so setting it removes the field.
func rate(lowest int64, locate func(*v1alpha1.LogClusterSpec) **resource.Quantity) *field {
	whole := size(lowest, math.MaxInt64, locate)
	return &field{
		allowed: fmt.Sprintf("at least %d; %s: no limit", lowest, rateUnlimited),
		get: func(spec *v1alpha1.LogClusterSpec) (string, bool) {
			value, ok := whole.get(spec)
			if ok {
				value += ".0" // the format of a double in Java
			}
			return value, ok
		},
		set: func(spec *v1alpha1.LogClusterSpec, value string) error {
			n, err := strconv.ParseFloat(value, 64)
			switch {
			case err != nil || math.IsNaN(n):
				return errors.New("not a number")
			case n < float64(lowest):
				return errOutOfRange
			case n >= math.MaxInt64:
				whole.reset(spec)
				return nil
			}
			return whole.set(spec, strconv.FormatInt(int64(n), 10))
		},
		reset: whole.reset,
	}
}

// flag returns the field for a boolean setting. It accepts the spellings that Kafka's ConfigDef
// accepts.
func flag(locate func(*v1alpha1.LogClusterSpec) **bool) *field {
	return &field{
		allowed: "true or false",
		get: func(spec *v1alpha1.LogClusterSpec) (string, bool) {
			if *locate(spec) == nil {
				return "", false
			}
			return strconv.FormatBool(**locate(spec)), true
		},
		set: func(spec *v1alpha1.LogClusterSpec, value string) error {
			var set bool
			switch strings.ToLower(value) {
			case "true":
				set = true
			case "false":
			default:
				return errors.New("not a boolean")
			}
			*locate(spec) = &set
			return nil
		},
		reset: func(spec *v1alpha1.LogClusterSpec) { *locate(spec) = nil },
	}
}
