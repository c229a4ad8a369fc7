// Package index defines the cache indexes with which controllers look up Topics, PartitionSets and
// LogUsers.
package index

import (
	"context"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/metadata"
)

// These are the names of the cache indexes. Each lookup also selects a namespace. Without the
// indexes, every reconciliation of a Topic would scan the Topics of all clusters. The names look
// like field paths, but only the cache supports them: a read from the API server itself must not
// use them.
const (
	ByCluster   = "spec.cluster"      // Topics, PartitionSets and LogUsers of a LogCluster
	ByKafkaName = "cluster/kafkaName" // Topics whose Kafka names are the same or collide
	ByPrincipal = "cluster/principal" // LogUsers with the same principal
)

// Add adds all indexes to a manager's cache. It must run before the manager starts: a running cache
// accepts no further indexes.
func Add(mgr ctrl.Manager) error {
	for _, index := range []struct {
		object client.Object
		name   string
		values client.IndexerFunc
	}{
		{&v1alpha1.Topic{}, ByCluster,
			func(o client.Object) []string { return []string{o.(*v1alpha1.Topic).Spec.Cluster} }},
		{&v1alpha1.Topic{}, ByKafkaName,
			func(o client.Object) []string { return []string{KafkaNameKey(o.(*v1alpha1.Topic))} }},
		{&v1alpha1.PartitionSet{}, ByCluster,
			func(o client.Object) []string {
				return []string{o.(*v1alpha1.PartitionSet).Spec.Cluster}
			}},
		{&v1alpha1.LogUser{}, ByCluster,
			func(o client.Object) []string { return []string{o.(*v1alpha1.LogUser).Spec.Cluster} }},
		{&v1alpha1.LogUser{}, ByPrincipal,
			func(o client.Object) []string { return []string{PrincipalKey(o.(*v1alpha1.LogUser))} }},
	} {
		if err := mgr.GetFieldIndexer().IndexField(context.Background(), index.object, index.name,
			index.values); err != nil {
			return err
		}
	}
	return nil
}

// KafkaNameKey returns a Topic's value in index ByKafkaName. The name of a LogCluster contains no
// slash, so Topics of different clusters have different values.
func KafkaNameKey(topic *v1alpha1.Topic) string {
	return topic.Spec.Cluster + "/" + metadata.CollisionKey(topic.KafkaName())
}

// PrincipalKey returns a LogUser's value in index ByPrincipal.
func PrincipalKey(user *v1alpha1.LogUser) string {
	return user.Spec.Cluster + "/" + user.PrincipalName()
}
