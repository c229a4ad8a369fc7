package metadata

import (
	"fmt"
	"math"

	"k8s.io/apimachinery/pkg/api/resource"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/authz"
	"heartwood.dev/heartwood/internal/quota"
)

// AllUsers is the name of the LogUser whose quotas are the defaults for all users. A default
// applies to each user without a quota of the same kind. Kafka calls such quotas the default user
// entity.
const AllUsers = authz.Wildcard

// QuotaKeys contains the quotas' Kafka names, sorted.
var QuotaKeys = []string{"consumer_byte_rate", "controller_mutation_rate", "producer_byte_rate",
	"request_percentage"}

// quotaKey describes the quota with one Kafka name.
type quotaKey struct {
	kind quota.Kind
	// units is the number of units in quota.Limits that correspond to one unit in the LogUser.
	units float64
	// max is the largest value that a LogUser accepts.
	max   int64
	value func(*v1alpha1.Quotas) (value int64, set bool)
	set   func(q *v1alpha1.Quotas, value *int64) // sets the value; nil removes it
}

var quotaKeys = map[string]quotaKey{
	"producer_byte_rate": bytesKey(quota.Produce,
		func(q *v1alpha1.Quotas) **resource.Quantity { return &q.ProduceRate }),
	"consumer_byte_rate": bytesKey(quota.Fetch,
		func(q *v1alpha1.Quotas) **resource.Quantity { return &q.FetchRate }),
	"request_percentage": countKey(quota.Request, 0.01, v1alpha1.RequestPercentMax,
		func(q *v1alpha1.Quotas) **int32 { return &q.RequestPercent }),
	"controller_mutation_rate": countKey(quota.Mutation, 1, v1alpha1.PartitionMutationsMax,
		func(q *v1alpha1.Quotas) **int32 { return &q.PartitionMutationRate }),
}

func bytesKey(kind quota.Kind, field func(*v1alpha1.Quotas) **resource.Quantity) quotaKey {
	return quotaKey{kind: kind, units: 1, max: math.MaxInt64,
		value: func(q *v1alpha1.Quotas) (int64, bool) {
			if quantity := *field(q); quantity != nil {
				return quantity.Value(), true
			}
			return 0, false
		},
		set: func(q *v1alpha1.Quotas, value *int64) {
			if *field(q) = nil; value != nil {
				format := resource.DecimalSI
				if *value%1024 == 0 {
					format = resource.BinarySI
				}
				*field(q) = resource.NewQuantity(*value, format)
			}
		}}
}

func countKey(kind quota.Kind, units float64, most int64,
	field func(*v1alpha1.Quotas) **int32) quotaKey {
	return quotaKey{kind: kind, units: units, max: most,
		value: func(q *v1alpha1.Quotas) (int64, bool) {
			if id := *field(q); id != nil {
				return int64(*id), true
			}
			return 0, false
		},
		set: func(q *v1alpha1.Quotas, value *int64) {
			if *field(q) = nil; value != nil {
				count := int32(*value)
				*field(q) = &count
			}
		}}
}

// CheckQuota returns an error if a LogUser's quota cannot have the given value, which may come from
// a client. If Kafka has the same error, the text is Kafka's.
func CheckQuota(key string, value float64) error {
	quotaKey, known := quotaKeys[key]
	switch {
	case !known:
		return fmt.Errorf("Invalid configuration key %s", key) //nolint:staticcheck // text of Kafka
	case !(value > 0): // negated, so that NaN is refused too
		return fmt.Errorf("Quota %s must be greater than 0", key) //nolint:staticcheck // text of Kafka
	case value > float64(quotaKey.max) || value >= math.MaxInt64:
		return fmt.Errorf("the value of %s is too large: at most %d", key, quotaKey.max)
	case value != math.Trunc(value):
		return fmt.Errorf("%s cannot be a fractional value", key)
	}
	return nil
}

// QuotasOf returns a LogUser's quotas by their Kafka names.
func QuotasOf(u *v1alpha1.LogUser) map[string]int64 {
	if u.Spec.Quotas == nil {
		return nil
	}
	all := map[string]int64{}
	for name, key := range quotaKeys {
		if value, set := key.value(u.Spec.Quotas); set && value > 0 {
			all[name] = value
		}
	}
	return all
}

// alterQuotas sets a LogUser's quotas, and removes those whose value is nil.
func alterQuotas(u *v1alpha1.LogUser, changes map[string]*int64) {
	quotas := &v1alpha1.Quotas{}
	if u.Spec.Quotas != nil {
		quotas = u.Spec.Quotas
	}
	for name, value := range changes {
		if key, known := quotaKeys[name]; known {
			key.set(quotas, value)
		}
	}
	if u.Spec.Quotas = quotas; *quotas == (v1alpha1.Quotas{}) {
		u.Spec.Quotas = nil
	}
}

// limitsOf returns the rates for quotas. defaults contains the quotas of AllUsers, which apply in
// place of missing ones.
func limitsOf(quotas, defaults map[string]int64) *quota.Limits {
	limits := &quota.Limits{}
	for name, key := range quotaKeys {
		value, set := quotas[name]
		if !set {
			value = defaults[name]
		}
		limits[key.kind] = float64(value) * key.units
	}
	return limits
}

// compileLimits computes the limits from s.Quotas.
func (s *Security) compileLimits() {
	if len(s.Quotas) == 0 {
		return
	}
	defaults := s.Quotas[AllUsers]
	s.limits = make(map[string]*quota.Limits, len(s.Quotas))
	for name, quotas := range s.Quotas {
		s.limits[name] = limitsOf(quotas, defaults)
	}
	if len(defaults) > 0 {
		s.defaultLimits = limitsOf(nil, defaults)
	}
}

// Limits returns a principal's quotas, or nil if it has none.
func (s *Security) Limits(p authz.Principal) *quota.Limits {
	if s == nil || len(s.limits) == 0 || p.Type != PrincipalUser {
		return nil
	}
	if limits := s.limits[p.Name]; limits != nil {
		return limits
	}
	return s.defaultLimits
}
