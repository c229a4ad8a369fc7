package coordinator

import (
	"maps"
	"slices"
	"time"

	"heartwood.dev/heartwood/internal/metadata"
)

// newsOf compares two images; before may be nil. A topic that is deleted and keeps its records is
// no news: made again under its name, it takes them up, and the offsets are of them.
func newsOf(before, now *metadata.Image) news {
	n := news{image: now, changed: map[string]bool{}, deleted: map[string]bool{}}
	if before == nil {
		return n
	}
	for _, topic := range before.Topics {
		if now.TopicByID(topic.ID) == nil && !topic.RetainData {
			n.changed[topic.Name], n.deleted[topic.Name] = true, true
		}
	}
	for _, topic := range now.Topics {
		if before.TopicByID(topic.ID) == nil {
			n.changed[topic.Name] = true
		}
	}
	return n
}

// news is what a shard has been told and has not looked at yet.
type news struct {
	image   *metadata.Image
	groups  metadata.Groups // as the image before says
	changed map[string]bool // names of topics that were made or deleted
	deleted map[string]bool // of those that were deleted with their records
	told    bool            // an event that looks at it is queued
}

// add puts other names to those that were changed.
func (n *news) add(other news) {
	if n.changed == nil {
		n.changed, n.deleted = map[string]bool{}, map[string]bool{}
	}
	maps.Copy(n.changed, other.changed)
	maps.Copy(n.deleted, other.deleted)
}

// tell has the shard go by an image: by what it says of groups, and of topics. A shard that still
// reads its partition looks at it after that.
func (s *shard) tell(of news) {
	s.queue.Lock()
	n := &s.queue.news
	n.image = of.image
	n.add(of)
	look := s.queue.open && !n.told && (len(of.changed) > 0 || n.groups != of.image.Groups)
	n.groups = of.image.Groups
	n.told = n.told || look
	s.queue.Unlock()
	if look {
		s.push(event{run: func(now time.Time) { s.look(now, false) }, fail: func(error) {}})
	}
}

// look goes by the news; all: of all topics, as the state was read from the log just now.
func (s *shard) look(now time.Time, all bool) {
	s.queue.Lock()
	n := s.queue.news
	s.queue.news = news{image: n.image, groups: n.groups}
	s.queue.Unlock()
	if n.image == nil {
		return
	}
	s.configure(n.image.Groups)
	if !all && !slices.ContainsFunc(slices.Collect(maps.Keys(n.changed)), s.state.KnowsTopic) {
		return
	}
	out := s.state.ForgetOffsets(func(topic string,
		id [16]byte) bool {
		return stale(n, topic, id)
	})
	// it is looked at again with the next news, or when offsets expire
	if s.settle(now, out) != nil {
		s.queue.Lock()
		s.queue.news.add(n)
		s.queue.Unlock()
	}
}

// stale tells whether an offset was committed for a topic that is gone with its records. A topic
// that went while nobody looked, as between two coordinators, and was made again, is told by its
// id, unless topics of this one's policy take up the records of those before them. Where there is
// none of the name, the offset stays until it is too old.
func stale(n news, topic string, id [16]byte) bool {
	current := n.image.Topic(topic)
	switch {
	case current != nil && current.ID == id:
		return false
	case n.deleted[topic]:
		return true
	default:
		return current != nil && id != [16]byte{} && !current.RetainData
	}
}
