package consumer

import (
	"crypto/sha256"
	"encoding/binary"
	"maps"
	"slices"
	"time"

	"heartwood.dev/heartwood/internal/coordinator/assignor"
)

// updateEpoch increments the group epoch if a member has joined, or if subscriptions or subscribed
// topics have changed. If new targets are due anyway, a member without a target or a change of the
// subscribed topics does not increment the epoch.
func (t *transition) updateEpoch(before *Member) {
	due := t.epoch > t.assignmentEpoch
	changed := t.isNew || !t.g.stored || len(t.resolved) > 0 || t.replaces == "" &&
		t.g.targets[t.member.ID] == nil && !due ||
		!slices.Equal(t.member.Topics, before.Topics) || t.member.Expression != before.Expression ||
		t.assignor() != t.g.assignor()
	if !changed && t.g.currentFor == t.topics {
		return
	}
	hash := t.hashTopics()
	if changed || hash != t.hash && !due {
		t.epoch++
	}
	t.hash = hash
}

// hashTopics returns a hash of the subscribed topics' ids and numbers of partitions, or 0 if no
// subscribed topic exists.
func (t *transition) hashTopics() int64 {
	names := map[string]bool{}
	t.eachMember(func(m *Member) {
		for name := range t.subscribed(m) {
			names[name] = true
		}
	})
	sum, known := sha256.New(), false
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if topic, ok := t.topics.ByName(name); ok {
			known = true
			sum.Write(binary.BigEndian.AppendUint32(topic.ID[:], uint32(topic.Partitions)))
		}
	}
	if !known {
		return 0
	}
	return int64(binary.BigEndian.Uint64(sum.Sum(nil)))
}

// updateTargets computes the targets of all members if the group epoch is higher than the epoch of
// the current targets, unless the current targets are too recent.
func (t *transition) updateTargets() {
	if t.epoch <= t.assignmentEpoch || t.tooEarly() {
		if t.replaces != "" {
			t.targets[t.member.ID] = t.g.targets[t.replaces]
		}
		return
	}
	var members []assignor.Member
	topics := map[assignor.TopicID]int{}
	t.eachMember(func(m *Member) {
		has := t.g.targets[m.ID]
		if m == &t.member && t.replaces != "" {
			has = t.g.targets[t.replaces]
		}
		one := assignor.Member{ID: m.ID, Instance: m.Instance, Current: has}
		for _, name := range slices.Sorted(maps.Keys(t.subscribed(m))) {
			if topic, ok := t.topics.ByName(name); ok {
				topics[topic.ID] = topic.Partitions
				one.Topics = append(one.Topics, topic.ID)
			}
		}
		members = append(members, one)
	})
	for id, target := range assignor.ByName(t.assignor())(members, topics) {
		if has, ok := t.g.targets[id]; !ok || !has.Equal(target) {
			t.targets[id] = target
		}
	}
	t.assignmentEpoch = t.epoch
}

// tooEarly reports whether the targets were computed less than t.interval ago. A later heartbeat
// then computes the next targets. So if the group changes many times within the interval, for
// example because all members join after a start, there is only one computation and one rebalance.
func (t *transition) tooEarly() bool {
	if t.g.assignmentEpoch == 0 || t.g.assignedMs == 0 {
		return false
	}
	// A negative age means that the clock was set back, or that the clocks of two brokers differ.
	age := t.now.Sub(time.UnixMilli(t.g.assignedMs))
	return age >= 0 && age < t.interval
}

// target returns the new target of t.member. It is nil if the member joined after the targets were
// computed; the member then waits for the next targets.
func (t *transition) target() assignor.Assignment {
	if target, changed := t.targets[t.member.ID]; changed {
		return target
	}
	return t.g.targets[t.member.ID]
}

// assignor returns the name of the assignor that most members prefer. If several names have the
// same number of votes, the first in alphabetical order wins.
func (t *transition) assignor() string { return selectAssignor(t.eachMember) }

func (g *Group) assignor() string {
	return selectAssignor(func(f func(m *Member)) {
		for _, m := range g.members {
			f(m)
		}
	})
}

func selectAssignor(all func(f func(m *Member))) string {
	votes := map[string]int{}
	all(func(m *Member) {
		if assignor.ByName(m.Assignor) != nil {
			votes[m.Assignor]++
		}
	})
	best := ""
	for _, name := range slices.Sorted(maps.Keys(votes)) {
		if votes[name] > votes[best] {
			best = name
		}
	}
	if best == "" {
		return assignor.Names()[0]
	}
	return best
}
