package metadata

import (
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// GroupOverride contains the settings that the LogCluster overrides for one group. If a field is 0,
// the setting in Groups applies.
type GroupOverride struct {
	ConsumerSession  time.Duration // session timeout in the consumer protocol
	ConsumerInterval time.Duration // heartbeat interval in the consumer protocol
	// ConsumerAssignment is the minimum time between two assignments in the consumer protocol. A
	// negative value means 0.
	ConsumerAssignment time.Duration
}

// GroupConfig describes a group config (Kafka's ConfigResource of type GROUP), with its value and
// its defaults.
type GroupConfig struct {
	Name, Doc  string
	BrokerName string        // Kafka broker setting for the value of all groups
	Value      time.Duration // value in effect
	Set        bool          // true if the LogCluster sets the value for this group
	Cluster    time.Duration // value for groups that do not set the config
	ClusterSet bool          // true if the LogCluster sets the value for all groups
	Default    time.Duration // Kafka's default
	Min, Max   time.Duration // bounds of the values that an admin request may set
}

// groupConfigRow is a row of groupConfigTable.
type groupConfigRow struct {
	name, doc             string
	standard, lowest, top time.Duration // Kafka's defaults for the value and for its bounds
	zero                  bool          // true if the value may be 0, which is stored as -1
	override              func(*GroupOverride) *time.Duration
	// cluster returns the values in the LogCluster; 0 if not set.
	cluster func(*Groups) (value, lowest, top time.Duration)
	field   func(*v1alpha1.GroupOverride) **metav1.Duration
}

const (
	groupSession    = "consumer.session.timeout.ms"
	groupInterval   = "consumer.heartbeat.interval.ms"
	groupAssignment = "consumer.assignment.interval.ms"
)

// groupConfigTable lists the configs of groups, sorted by name. Kafka 4.3 also has configs of share
// groups and streams groups.
var groupConfigTable = []groupConfigRow{
	{
		name: groupAssignment, standard: time.Second, zero: true, top: 15 * time.Second,
		doc: "The minimum time between two assignments of a group of the consumer protocol " +
			"(LogCluster.spec.groups.overrides[].consumerAssignmentInterval).",
		override: func(o *GroupOverride) *time.Duration { return &o.ConsumerAssignment },
		cluster: func(g *Groups) (value, lowest, top time.Duration) {
			return g.ConsumerAssignment, 0, 0 // zero bounds mean Kafka's defaults, which always apply here
		},
		field: func(o *v1alpha1.GroupOverride) **metav1.Duration {
			return &o.ConsumerAssignmentInterval
		},
	},
	{
		name: groupInterval, standard: 5 * time.Second,
		lowest: 5 * time.Second, top: 15 * time.Second,
		doc: "The heartbeat interval of members of the consumer protocol " +
			"(LogCluster.spec.groups.overrides[].consumerHeartbeatInterval).",
		override: func(o *GroupOverride) *time.Duration { return &o.ConsumerInterval },
		cluster: func(g *Groups) (value, lowest, top time.Duration) {
			return g.ConsumerInterval, g.ConsumerIntervalMin, g.ConsumerIntervalMax
		},
		field: func(o *v1alpha1.GroupOverride) **metav1.Duration {
			return &o.ConsumerHeartbeatInterval
		},
	},
	{
		name: groupSession, standard: 45 * time.Second,
		lowest: 45 * time.Second, top: time.Minute,
		doc: "The time without a heartbeat after which a member of the consumer protocol is " +
			"removed (LogCluster.spec.groups.overrides[].consumerSessionTimeout).",
		override: func(o *GroupOverride) *time.Duration { return &o.ConsumerSession },
		cluster: func(g *Groups) (value, lowest, top time.Duration) {
			return g.ConsumerSession, g.ConsumerSessionMin, g.ConsumerSessionMax
		},
		field: func(o *v1alpha1.GroupOverride) **metav1.Duration {
			return &o.ConsumerSessionTimeout
		},
	},
}

// GroupConfigs returns the configs of a group, sorted by name. override contains the group's
// settings.
func GroupConfigs(cluster Groups, override GroupOverride) []GroupConfig {
	configs := make([]GroupConfig, len(groupConfigTable))
	for i, row := range groupConfigTable {
		value, lowest, top := row.cluster(&cluster)
		c := GroupConfig{Name: row.name, Doc: row.doc, BrokerName: "group." + row.name,
			Cluster: max(0, value), ClusterSet: value != 0, Default: row.standard, Min: lowest,
			Max: top}
		if !c.ClusterSet {
			c.Cluster = row.standard
		}
		// The value that applies to all groups is always valid for a single group.
		if lowest == 0 {
			c.Min = min(row.lowest, c.Cluster)
		}
		if top == 0 {
			c.Max = max(row.top, c.Cluster)
		}
		if own := *row.override(&override); own != 0 {
			c.Set, c.Value = true, max(0, own)
		} else {
			c.Value = c.Cluster
		}
		configs[i] = c
	}
	return configs
}

// Altered returns a group's settings after changes of properties. If replace is set, it first
// resets all settings, as Kafka's AlterConfigs does. The error wraps ErrInvalidSettings. The rules
// are Kafka's: an unknown name can be deleted but not set, and every value that the group then sets
// must be within the cluster's bounds.
func (o GroupOverride) Altered(cluster Groups, properties []PropertyChange,
	replace bool) (GroupOverride, error) {
	if replace {
		o = GroupOverride{}
	}
	for _, p := range properties {
		if err := o.set(p); err != nil {
			return o, err
		}
	}
	return o, o.check(cluster)
}

// set applies one change of a property.
func (o *GroupOverride) set(p PropertyChange) error {
	index := slices.IndexFunc(groupConfigTable,
		func(row groupConfigRow) bool { return row.name == p.Name })
	switch {
	case p.Op == PropertyDelete && index < 0:
		return nil
	case index < 0:
		return errorf(ErrInvalidSettings, "unknown group config name: %s", p.Name)
	case p.Op == PropertyDelete:
		*groupConfigTable[index].override(o) = 0
		return nil
	case p.Op != PropertySet:
		return errorf(ErrInvalidSettings, "%s cannot be appended to or subtracted from, because "+
			"its type is not list", p.Name)
	}
	millis, err := strconv.ParseInt(strings.TrimSpace(p.Value), 10, 32)
	if err != nil {
		return errorf(ErrInvalidSettings, "invalid value %q for configuration %s: not a number of "+
			"type int", p.Value, p.Name)
	}
	row := groupConfigTable[index]
	lowest := int64(1)
	if row.zero {
		lowest = 0
	}
	if millis < lowest {
		return errorf(ErrInvalidSettings, "invalid value %d for configuration %s: value must be at "+
			"least %d", millis, p.Name, lowest)
	}
	*row.override(o) = noneIfZero(time.Duration(millis) * time.Millisecond)
	return nil
}

// check returns an error if a value is out of bounds, or if the heartbeat interval is not shorter
// than the session timeout.
func (o GroupOverride) check(cluster Groups) error {
	effective := map[string]time.Duration{}
	for _, c := range GroupConfigs(cluster, o) {
		effective[c.Name] = c.Value
		kind := strings.TrimPrefix(c.Name, "consumer.")
		switch {
		case c.Set && c.Value < c.Min:
			return errorf(ErrInvalidSettings, "%s must be greater than or equal to "+
				"group.consumer.min.%s, which is %d", c.Name, kind, c.Min.Milliseconds())
		case c.Set && c.Value > c.Max:
			return errorf(ErrInvalidSettings, "%s must be less than or equal to "+
				"group.consumer.max.%s, which is %d", c.Name, kind, c.Max.Milliseconds())
		}
	}
	if effective[groupSession] <= effective[groupInterval] {
		return errorf(ErrInvalidSettings, "%s must be greater than %s: %d is not greater than %d",
			groupSession, groupInterval, effective[groupSession].Milliseconds(),
			effective[groupInterval].Milliseconds())
	}
	return nil
}

// ResolveGroupOverrides returns a LogCluster's settings for single groups, by group id. cluster may
// be nil. Values out of range, which the API server rejects, count as not set.
func ResolveGroupOverrides(cluster *v1alpha1.LogCluster) map[string]GroupOverride {
	if cluster == nil || cluster.Spec.Groups == nil {
		return nil
	}
	var overrides map[string]GroupOverride
	for i := range cluster.Spec.Groups.Overrides {
		entry := &cluster.Spec.Groups.Overrides[i]
		var o GroupOverride
		for _, row := range groupConfigTable {
			value := *row.field(entry)
			*row.override(&o) = positive(value)
			if row.zero && value != nil && value.Duration == 0 {
				*row.override(&o) = noneIfZero(value.Duration)
			}
		}
		if o == (GroupOverride{}) {
			continue
		}
		if overrides == nil {
			overrides = map[string]GroupOverride{}
		}
		overrides[entry.Group] = o
	}
	return overrides
}

// groupOverridesMax is the maximum number of entries in spec.groups.overrides, and groupIDBytesMax
// is the maximum length of a group id, in the LogCluster's schema.
const (
	groupOverridesMax = 1000
	groupIDBytesMax   = 1024
)

// alteredGroup returns a copy of the LogCluster with changed settings for one group. A group
// without settings has no entry in spec.groups.overrides.
func alteredGroup(cluster *v1alpha1.LogCluster, change ClusterChange) (*v1alpha1.LogCluster,
	error) {
	if len(change.Group) > groupIDBytesMax {
		return nil, errorf(ErrInvalidSettings, "group id is longer than %d bytes", groupIDBytesMax)
	}
	after, err := ResolveGroupOverrides(cluster)[change.Group].Altered(ResolveGroups(cluster),
		change.Properties, change.Replace)
	if err != nil {
		return nil, err
	}
	altered := cluster.DeepCopy()
	groups := altered.Spec.Groups
	if groups == nil {
		if after == (GroupOverride{}) {
			return altered, nil
		}
		groups = &v1alpha1.Groups{}
		altered.Spec.Groups = groups
	}
	index := slices.IndexFunc(groups.Overrides,
		func(o v1alpha1.GroupOverride) bool { return o.Group == change.Group })
	switch {
	case after == (GroupOverride{}) && index < 0:
		return altered, nil
	case after == (GroupOverride{}):
		groups.Overrides = slices.Delete(groups.Overrides, index, index+1)
		return altered, nil
	case index < 0 && len(groups.Overrides) >= groupOverridesMax:
		return nil, errorf(ErrInvalidSettings, "%d groups have settings of their own already, which "+
			"is the limit: delete those of another group", groupOverridesMax)
	case index < 0:
		groups.Overrides = append(groups.Overrides, v1alpha1.GroupOverride{Group: change.Group})
		index = len(groups.Overrides) - 1
	}
	for _, row := range groupConfigTable {
		field := row.field(&groups.Overrides[index])
		if value := *row.override(&after); value == 0 {
			*field = nil
		} else {
			*field = &metav1.Duration{Duration: max(0, value)}
		}
	}
	return altered, nil
}
