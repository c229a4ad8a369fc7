package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/cli/usage"
	"heartwood.dev/heartwood/internal/metadata/partitionset"
)

func moveCommand(f *flags) *cobra.Command {
	var consent consent
	cmd := &cobra.Command{
		Use:   "move TOPIC/PARTITION BROKER,BROKER...",
		Short: "Move a partition to other brokers",
		Long: `Move a partition to other brokers, the preferred leader first. Brokers that get a new replica copy
the records, and join the ISR; then the replicas on other brokers are removed. Producers and
consumers continue.

The number of brokers must be the topic's number of replicas. 'kubectl heartwood status' shows the
progress (reason Reassigning).`,
		Example: `  kubectl heartwood move tickets/0 1,2,3`,
		Args:    exactArgs("TOPIC/PARTITION", "BROKER,BROKER..."),
	}
	consent.add(cmd)
	cmd.RunE = f.run(func(ctx context.Context, s *session, args []string) error {
		name, partition, err := parsePartition(args[0])
		if err != nil {
			return err
		}
		target, err := parseBrokers(args[1])
		if err != nil {
			return err
		}
		topic, cluster, err := s.topicAndCluster(ctx, name)
		if err != nil {
			return err
		}
		return s.move(ctx, topic, cluster, &consent, partition, target)
	})
	return cmd
}

// parsePartition parses TOPIC/PARTITION.
func parsePartition(text string) (topic string, partition int32, err error) {
	topic, number, found := strings.Cut(text, "/")
	index, err := strconv.ParseUint(number, 10, 31)
	if !found || topic == "" || err != nil {
		return "", 0, usage.New(fmt.Errorf("invalid argument %q: give TOPIC/PARTITION, such as "+
			"tickets/0", text))
	}
	return topic, int32(index), nil
}

// parseBrokers parses a list of broker ids.
func parseBrokers(text string) ([]int32, error) {
	var ids []int32
	for word := range strings.SplitSeq(text, ",") {
		id, err := strconv.ParseUint(word, 10, 31)
		if err != nil || slices.Contains(ids, int32(id)) {
			return nil, usage.New(fmt.Errorf("invalid argument %q: give different broker ids, such "+
				"as 1,2,3", text))
		}
		ids = append(ids, int32(id))
	}
	return ids, nil
}

// move requests the reassignment of a partition. Requests in the annotation that the operator has
// not handled yet are kept.
func (s *session) move(ctx context.Context, topic *v1alpha1.Topic, cluster *v1alpha1.LogCluster,
	consent *consent, partition int32, target []int32) error {
	present, err := s.placed(ctx, topic, cluster, partition)
	if err != nil {
		return err
	}
	for _, id := range target {
		if id >= cluster.Spec.Brokers {
			return fmt.Errorf("LogCluster %s has no broker %d", cluster.Name, id)
		}
	}
	if len(target) != len(present) {
		return fmt.Errorf("topic %s has %d replicas: give %d brokers; to change their number, set "+
			"spec.replicas of the Topic", topic.Name, len(present), len(present))
	}
	steps := []string{fmt.Sprintf("move partition %s/%d from brokers %v to brokers %v", topic.Name,
		partition, present, target)}
	for _, id := range target {
		if !slices.Contains(present, id) {
			steps = append(steps, fmt.Sprintf("broker %d copies the records of the partition", id))
		}
	}
	if slices.Equal(present, target) {
		return consent.done(s, []string{}, "the partition is assigned to these brokers already")
	}
	if confirmed, err := consent.confirm(s, steps...); !confirmed {
		return err
	}
	waiting, err := topic.Reassignments()
	if err != nil {
		return fmt.Errorf("the Topic has an invalid annotation %s: %w; remove it first",
			v1alpha1.AnnotationReassign, err)
	}
	words := []string{reassignment(partition, target)}
	for index, replicas := range waiting {
		if index != partition {
			words = append(words, reassignment(index, replicas))
		}
	}
	slices.Sort(words)
	if err := annotateLocked(ctx, s, topic, v1alpha1.AnnotationReassign,
		strings.Join(words, " ")); err != nil {
		return err
	}
	return consent.done(s, steps, fmt.Sprintf("partition %s/%d: requested; kubectl heartwood status "+
		"shows the progress", topic.Name, partition))
}

// reassignment returns one request in the format of the annotation heartwood.dev/reassign.
func reassignment(partition int32, replicas []int32) string {
	ids := make([]string, len(replicas))
	for i, id := range replicas {
		ids[i] = strconv.Itoa(int(id))
	}
	return strconv.Itoa(int(partition)) + "=" + strings.Join(ids, ",")
}

// entry returns a partition's entry in its PartitionSet.
func (s *session) entry(ctx context.Context, topic *v1alpha1.Topic, cluster *v1alpha1.LogCluster,
	partition int32) (partitionset.Entry, error) {
	key := partitionset.Key{Topic: topic.Name, Index: partition}
	first := &v1alpha1.PartitionSet{} // contains the number of the LogCluster's sets
	if err := s.get(ctx, "PartitionSet", v1alpha1.PartitionSetName(cluster.Name, 0),
		first); err != nil {
		return partitionset.Entry{}, err
	}
	object := first
	if number := partitionset.Number(key, first.Spec.Count); number != 0 {
		object = &v1alpha1.PartitionSet{}
		if err := s.get(ctx, "PartitionSet", v1alpha1.PartitionSetName(cluster.Name, number),
			object); err != nil {
			return partitionset.Entry{}, err
		}
	}
	set, _ := partitionset.Decode(object, nil)
	entry, found := set.Get(key)
	if !found {
		return partitionset.Entry{}, fmt.Errorf("topic %s has no partition %d", topic.Name, partition)
	}
	return entry, nil
}

// placed returns the brokers to which the partition is assigned.
func (s *session) placed(ctx context.Context, topic *v1alpha1.Topic,
	cluster *v1alpha1.LogCluster, partition int32) ([]int32, error) {
	entry, err := s.entry(ctx, topic, cluster, partition)
	if err != nil {
		return nil, err
	}
	if entry.Assignment == nil {
		return nil, errors.New("the partition is not assigned to brokers yet")
	}
	return entry.Assignment.Replicas, nil
}
