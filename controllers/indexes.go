package controllers

import (
	"context"
	"strconv"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// Fields that the cache finds objects by, always within a namespace. Without them each look at a
// topic would go through all partitions of all clusters. They are names of indexes, not paths: the
// API server does not know them, so only cached reads may use them.
const (
	byCluster   = "spec.cluster"       // Topics and Partitions of a LogCluster
	byKafkaName = "cluster/kafkaName"  // Topics that claim the same name
	byTopic     = "spec.topic"         // Partitions of a Topic resource
	byBroker    = "cluster/replicas[]" // Partitions that a broker holds, or is to
)

// addIndexes must run before the manager starts: a cache that runs takes no more indexes.
func addIndexes(mgr ctrl.Manager) error {
	for _, index := range []struct {
		object client.Object
		field  string
		values client.IndexerFunc
	}{
		{&v1alpha1.Topic{}, byCluster,
			func(o client.Object) []string { return []string{o.(*v1alpha1.Topic).Spec.Cluster} }},
		{&v1alpha1.Topic{}, byKafkaName,
			func(o client.Object) []string { return []string{kafkaNameKey(o.(*v1alpha1.Topic))} }},
		{&v1alpha1.Partition{}, byCluster,
			func(o client.Object) []string { return []string{o.(*v1alpha1.Partition).Spec.Cluster} }},
		{&v1alpha1.Partition{}, byTopic,
			func(o client.Object) []string { return []string{o.(*v1alpha1.Partition).Spec.Topic} }},
		{&v1alpha1.Partition{}, byBroker,
			func(o client.Object) []string { return brokerKeys(o.(*v1alpha1.Partition)) }},
	} {
		if err := mgr.GetFieldIndexer().IndexField(context.Background(), index.object, index.field,
			index.values); err != nil {
			return err
		}
	}
	return nil
}

// A slash is in no name of ours, so no two clusters share a key.
func kafkaNameKey(topic *v1alpha1.Topic) string {
	return topic.Spec.Cluster + "/" +
		topic.KafkaName()
}

func brokerKey(cluster string,
	broker int32) string {
	return cluster + "/" + strconv.Itoa(int(broker))
}

// brokerKeys has a key for each broker that a partition names, so one is found by any that holds
// it, or is to.
func brokerKeys(partition *v1alpha1.Partition) []string {
	var keys []string
	for _, broker := range named(partition) {
		keys = append(keys, brokerKey(partition.Spec.Cluster, broker))
	}
	return keys
}
