package topicconfig

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// ignoredProperty is a Kafka property that has no effect here and is not stored. Values that
// request no effect are accepted, because tools and migrations set them. Other values are rejected
// with the reason.
type ignoredProperty struct {
	list    bool
	accepts func(value string) bool
	allowed string
	reason  string
}

const noTiers = "there is no tiered storage"

// ignored contains the ignored properties by name. Kafka uses them for tiered storage, for
// throttling reassignments and for share groups.
var ignored = map[string]ignoredProperty{
	"errors.deadletterqueue.group.enable": {accepts: oneOf("false"), allowed: "false",
		reason: "there are no share groups"},
	"follower.replication.throttled.replicas": throttledReplicas,
	"leader.replication.throttled.replicas":   throttledReplicas,
	"local.retention.bytes": {accepts: oneOf("-2"), allowed: "-2, which is retention.bytes",
		reason: noTiers},
	"local.retention.ms": {accepts: oneOf("-2"), allowed: "-2, which is retention.ms",
		reason: noTiers},
	"remote.copy.lag.bytes":        {accepts: lag, allowed: "at least -1", reason: noTiers},
	"remote.copy.lag.ms":           {accepts: lag, allowed: "at least -1", reason: noTiers},
	"remote.log.copy.disable":      {accepts: flag, allowed: "true or false", reason: noTiers},
	"remote.log.delete.on.disable": {accepts: flag, allowed: "true or false", reason: noTiers},
	"remote.storage.enable":        {accepts: oneOf("false"), allowed: "false", reason: noTiers},
}

// throttledReplicas is for properties that list the replicas that a reassignment throttles.
var throttledReplicas = ignoredProperty{list: true,
	accepts: regexp.MustCompile(`^\s*(|\*|none|[0-9]+:[0-9]+(\s*,\s*[0-9]+:[0-9]+)*)\s*$`).MatchString,
	allowed: "*, none or [partition]:[broker],...",
	reason:  "the LogCluster limits the rate of reassignments"}

func oneOf(allowed ...string) func(string) bool {
	return func(value string) bool {
		return slices.Contains(allowed, strings.ToLower(strings.TrimSpace(value)))
	}
}

var flag = oneOf("true", "false")

// lag reports whether a value is a valid lag of copying to remote storage.
func lag(value string) bool {
	_, err := parseInteger(value, -1, 1<<63-1)
	return err == nil
}

// Ignored reports whether a property has no effect and is not stored.
func Ignored(name string) bool {
	_, found := ignored[name]
	return found
}

// IgnoredProperty describes a property that has no effect and is not stored.
type IgnoredProperty struct {
	Name    string
	Allowed string // values that are accepted, because they request no effect
	Reason  string // reason for which other values are rejected
}

// IgnoredProperties returns the properties that have no effect and are not stored, sorted by name.
func IgnoredProperties() (all []IgnoredProperty) {
	for _, name := range slices.Sorted(maps.Keys(ignored)) {
		all = append(all, IgnoredProperty{name, ignored[name].allowed, ignored[name].reason})
	}
	return all
}

// checkIgnored returns an error for an unknown property. For an ignored property, it returns an
// error if the value requests an effect.
func checkIgnored(name, value string) error {
	property, found := ignored[name]
	switch {
	case !found:
		return fmt.Errorf("%w %q", ErrUnknownProperty, name)
	case !property.accepts(value):
		return fmt.Errorf("invalid value %q for property %s: not supported, as %s (allowed: %s)",
			value, name, property.reason, property.allowed)
	}
	return nil
}
