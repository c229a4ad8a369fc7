package datadir

import "log/slog"

// TopicID is a topic's id, stored in partition.metadata.
type TopicID [16]byte

// LogValue implements slog.LogValuer. It returns the id in the form that Kafka's tools and a
// Topic's status show.
func (t TopicID) LogValue() slog.Value {
	return slog.StringValue(t.String())
}
