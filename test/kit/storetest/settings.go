package storetest

import "heartwood.dev/heartwood/internal/topicconfig"

// Settings returns topic settings with small segments and without retention, modified by change. A
// nil change modifies nothing.
func Settings(change func(*topicconfig.Settings)) topicconfig.Settings {
	s := topicconfig.Default()
	s.SegmentBytes = 1000
	s.RetentionTime = topicconfig.Unlimited
	if change != nil {
		change(&s)
	}
	return s
}

// Compacted returns the settings of a compacted topic, modified by change. A segment of 1000 bytes
// has room for about nine batches from Keyed with one key.
func Compacted(change func(*topicconfig.Settings)) topicconfig.Settings {
	return Settings(func(s *topicconfig.Settings) {
		s.Compact, s.Delete, s.KeepCodec = true, false, true
		s.MinDirtyPercent, s.MaxGarbagePercent = 50, 0
		if change != nil {
			change(s)
		}
	})
}
