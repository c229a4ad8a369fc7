package consumer

import (
	"crypto/sha256"
	"encoding/binary"
	"maps"
	"slices"

	"heartwood.dev/heartwood/internal/coordinator/assignor"
)

// advance makes the group's next epoch when members, what they subscribe to, or its topics have
// changed.
func (t *turn) advance(before *Member) {
	changed := t.isNew || !t.g.kept || len(t.resolved) > 0 || t.instead == "" &&
		t.g.targets[t.member.ID] == nil ||
		!slices.Equal(t.member.Topics, before.Topics) || t.member.Expression != before.Expression ||
		t.chosen() != t.g.chosen()
	if !changed && t.g.seen == t.topics {
		return
	}
	hash := t.hashTopics()
	if changed || hash != t.hash && t.epoch == t.assignmentEpoch {
		t.epoch++
	}
	t.hash = hash
}

// hashTopics is a number for what the group's topics are: others have another. It is 0 if there are
// none.
func (t *turn) hashTopics() int64 {
	names := map[string]bool{}
	t.all(func(m *Member) {
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

// assign makes a target for each member if the group's epoch is ahead of that of the last ones.
func (t *turn) assign() {
	if t.epoch <= t.assignmentEpoch {
		if t.instead != "" {
			t.targets[t.member.ID] = t.g.targets[t.instead]
		}
		return
	}
	var members []assignor.Member
	topics := map[assignor.TopicID]int{}
	t.all(func(m *Member) {
		has := t.g.targets[m.ID]
		if m == &t.member && t.instead != "" {
			has = t.g.targets[t.instead]
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
	for id, target := range assignor.ByName(t.chosen())(members, topics) {
		if has, ok := t.g.targets[id]; !ok || !has.Equal(target) {
			t.targets[id] = target
		}
	}
	t.assignmentEpoch = t.epoch
}

// target is the member's.
func (t *turn) target() assignor.Assignment {
	if target, changed := t.targets[t.member.ID]; changed {
		return target
	}
	return t.g.targets[t.member.ID]
}

// chosen is the assignor that most members want; of several the first by name.
func (t *turn) chosen() string { return chosen(t.all) }

func (g *Group) chosen() string {
	return chosen(func(f func(m *Member)) {
		for _, m := range g.members {
			f(m)
		}
	})
}

func chosen(all func(f func(m *Member))) string {
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
