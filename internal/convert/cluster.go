package convert

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/api/resource"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/brokerconfig"
	"heartwood.dev/heartwood/internal/metadata"
)

// cluster is the conversion of a Kafka with its node pools.
type cluster struct {
	result
	pools []*source
	to    *v1alpha1.LogCluster
	hosts map[string]map[string]string // by listener and broker id
	keep  bool                         // a volume has deleteClaim: false
}

func newCluster(s *source, pools []*source) *cluster {
	return &cluster{result: result{source: s}, pools: pools, to: &v1alpha1.LogCluster{},
		hosts: map[string]map[string]string{}}
}

// reasons are the reasons why fields of a Kafka have no counterpart.
var reasons = map[string]string{
	"jmxOptions":             "brokers are no JVMs; metrics and /debug/pprof are served over HTTP",
	"jvmOptions":             "brokers are no JVMs: size memory by spec.resources and spec.cleaner.memory",
	"logging":                "see spec.logging: levels are those of slog, and loggers are packages",
	"tieredStorage":          "there is no tiered storage",
	"quotas":                 "see spec.quotas of a LogUser, and spec.storage.pressure for full volumes",
	"clusterCa":              "the operator makes the CA of a listener without secretName or issuerRef",
	"clientsCa":              "Strimzi's Secret with the clients CA must remain, and nobody renews it",
	"maintenanceTimeWindows": "see spec.rollout.window: one window on each day, in UTC",
	"template": "only affinity, tolerations, priority class, pull secrets and metadata of pods are" +
		" supported",
	"readinessProbe": "the operator sets the probes",
	"livenessProbe":  "the operator sets the probes",
	"secretPrefix": "the names of Strimzi's Secrets begin with it: set authentication.passwordFrom of" +
		" the LogUsers",
	"watchedNamespace": "Topics and LogUsers are in the namespace of their LogCluster: set" +
		" metadata.namespace",
	"entityOperator":      "the operator of Heartwood reconciles Topics and LogUsers",
	"image":               "an image of Apache Kafka: see spec.image",
	"configuration":       "the listener has no such setting",
	"brokerRackInitImage": "the operator reads the racks of nodes itself",
}

func (c *cluster) document() Document {
	spec := c.source.child("spec")
	kafka := spec.child("kafka")
	c.to.ObjectMeta = c.metadata()
	c.to.APIVersion, c.to.Kind = v1alpha1.GroupVersion.String(), "LogCluster"
	kafka.skip("version", "metadataVersion")
	c.needless(spec, kafka)
	c.entityOperator(spec.child("entityOperator"))
	c.brokers(kafka)
	c.listeners(kafka)
	if kafka.has("authorization") {
		c.authorization(kafka.child("authorization"))
	}
	c.to.Spec.RackKey = c.rack(kafka.child("rack"))
	c.config(kafka.child("config"))
	if !c.to.Spec.Secured() {
		c.to.Spec.Peers = v1alpha1.PeersMutualTLS // as between Strimzi's brokers, always
	}
	return c.result.document(c.to, reasons)
}

// needless adds the remarks for what Heartwood does without configuration. In Strimzi, an empty
// object switches a part on.
func (c *cluster) needless(spec, kafka *source) {
	for _, part := range []struct {
		s           *source
		field, text string
	}{
		{spec, "zookeeper", "Kubernetes stores the metadata"},
		{spec, "kafkaExporter", "brokers export the lag of consumer groups themselves"},
		{kafka, "metricsConfig", "brokers export metrics for Prometheus without configuration"},
	} {
		if part.s.has(part.field) {
			part.s.skip(part.field)
			c.note(part.s.at(part.field), "%s", part.text)
		}
	}
	if spec.has("cruiseControl") {
		spec.skip("cruiseControl")
		c.lost("spec.cruiseControl", "the operator moves replicas itself: see spec.rebalance")
	}
}

// entityOperator reads the settings of Strimzi's other operators. Without settings, the operators
// do what Heartwood's operator does for all Topics and LogUsers.
func (c *cluster) entityOperator(s *source) {
	for _, name := range []string{"topicOperator", "userOperator"} {
		s.child(name).skip("reconciliationIntervalMs", "reconciliationIntervalSeconds", "resources")
	}
}

func (c *cluster) rack(s *source) string {
	if kind := s.text("type"); kind != "" && kind != "topology-label" {
		c.lost(s.at("type"), "racks come from a label of the nodes")
	}
	return s.text("topologyKey")
}

func (c *cluster) authorization(s *source) {
	if kind := s.text("type"); kind != "simple" {
		c.lost(s.path, "authorization of type %q is not supported; the LogCluster has type Simple:"+
			" every client needs ACLs, in LogUsers", kind)
		s.skip(fieldsOf(s)...)
	}
	to := &v1alpha1.Authorization{Type: v1alpha1.AuthorizationSimple}
	for _, name := range s.texts("superUsers") {
		// The name is the principal as it was: Strimzi, too, adds User: to all names.
		if mapped := clientsCAName.FindStringSubmatch(name); mapped != nil {
			name = mapped[1]
		}
		if !slices.Contains(to.SuperUsers, name) {
			to.SuperUsers = append(to.SuperUsers, name)
		}
	}
	c.to.Spec.Authorization = to
}

// brokers converts the number of brokers, their volumes, resources and pods. Before node pools, the
// Kafka itself contained them.
func (c *cluster) brokers(kafka *source) {
	var pools []*source
	for _, pool := range c.pools {
		spec := pool.child("spec")
		if roles := spec.texts("roles"); !slices.Contains(roles, "broker") {
			c.note(pool.object(), "Kubernetes stores the metadata")
			continue
		}
		pools = append(pools, spec)
		spec.path = pool.object() + " spec"
	}
	if len(pools) == 0 {
		pools = append(pools, kafka)
	} else {
		kafka.skip("replicas", "storage") // Strimzi ignores them beside pools
	}
	for _, pool := range pools {
		c.pool(pool, kafka)
	}
	if to := &c.to.Spec.Storage; c.keep && to.ReclaimPolicy == v1alpha1.ReclaimDelete {
		to.ReclaimPolicy = ""
		c.lost("spec.kafka.storage", "some volumes have deleteClaim, but not all: all volumes are kept")
	}
	if len(pools) > 1 {
		c.lost("spec.kafka", "several pools of brokers become one set of equal brokers, with the largest"+
			" volume and the resources of the first pool")
	}
	for _, pool := range pools {
		if pool == kafka {
			continue
		}
		for _, path := range pool.unread() {
			c.lost(path, "%s", reason(path, reasons))
		}
	}
}

func (c *cluster) pool(pool, kafka *source) {
	if n, ok := pool.number("replicas", 1, 10000); ok {
		c.to.Spec.Brokers += int32(n)
	}
	c.storage(pool.child("storage"))
	template := pool // as in Strimzi, the pool's template replaces the whole template of the Kafka
	if !pool.has("template") {
		template = kafka
	}
	for _, s := range []*source{pool, kafka} {
		if c.to.Spec.Resources == nil && s.has("resources") {
			c.resources(s)
		}
	}
	if c.to.Spec.Pod == nil {
		c.pod(template.child("template").child("pod"))
	}
}

func (c *cluster) resources(s *source) {
	var to v1alpha1.Resources
	if from := s.child("resources"); from.decode("requests", &to.Requests) ||
		from.decode("limits", &to.Limits) {
		from.decode("limits", &to.Limits)
		for _, quantities := range []map[string]resource.Quantity{to.Requests, to.Limits} {
			maps.DeleteFunc(quantities, func(_ string, q resource.Quantity) bool { return q.IsZero() })
		}
		c.to.Spec.Resources = &to
	}
}

// storage converts the volumes of a pool. A broker of Heartwood has one volume, so it needs the sum
// of a broker's volumes.
func (c *cluster) storage(s *source) {
	volumes := []*source{s}
	if s.text("type") == "jbod" {
		if volumes = s.items("volumes"); len(volumes) > 1 {
			c.lost(s.path, "a broker has one volume, with the size of all %d", len(volumes))
		}
	}
	var sum resource.Quantity
	for _, volume := range volumes {
		volume.skip("id", "kraftMetadata")
		switch kind := volume.text("type"); kind {
		case "persistent-claim":
			if size, err := resource.ParseQuantity(volume.text("size")); err == nil {
				sum.Add(size)
			} else {
				c.lost(volume.at("size"), "%q is not a size: set spec.storage.size", volume.text("size"))
			}
			c.class(volume)
		case "ephemeral":
			c.lost(volume.path, "brokers keep their records in PersistentVolumes, also over restarts")
			if size, err := resource.ParseQuantity(volume.text("sizeLimit")); err == nil {
				sum.Add(size)
			}
		}
	}
	if sum.Cmp(c.to.Spec.Storage.Size) > 0 {
		c.to.Spec.Storage.Size = sum
	}
}

func (c *cluster) class(volume *source) {
	to := &c.to.Spec.Storage
	if name := volume.text("class"); name != "" {
		if to.ClassName != nil && *to.ClassName != name {
			c.lost(volume.at("class"), "all brokers have the class %s", *to.ClassName)
		} else {
			to.ClassName = &name
		}
	}
	if !volume.flag("deleteClaim") {
		c.keep = true
		return
	}
	to.ReclaimPolicy = v1alpha1.ReclaimDelete
}

// pod converts template.pod.
func (c *cluster) pod(s *source) {
	to := &v1alpha1.Pod{}
	s.decode("affinity", &to.Affinity)
	s.decode("tolerations", &to.Tolerations)
	s.decode("imagePullSecrets", &to.ImagePullSecrets)
	if name := s.text("priorityClassName"); name != "" {
		to.PriorityClassName = name
	}
	meta := s.child("metadata")
	meta.decode("labels", &to.Labels)
	meta.decode("annotations", &to.Annotations)
	if s.content != nil {
		c.to.Spec.Pod = to
	}
}

// config converts the broker configs.
func (c *cluster) config(s *source) {
	for _, name := range slices.Sorted(maps.Keys(s.content)) {
		if value, ok := configValue(s, name); ok {
			c.setting(s, name, value)
		}
	}
}

func (c *cluster) setting(s *source, name, value string) {
	path := s.at(name)
	if unit, ok := units[name]; ok {
		n, err := strconv.ParseInt(value, 10, 32)
		switch {
		case s.has(unit.name):
			c.note(path, "Kafka uses %s instead", unit.name)
			return
		case err != nil:
			c.lost(path, "not a 32-bit integer")
			return
		}
		name, value = unit.name, strconv.FormatInt(max(n*unit.factor, -1), 10)
	}
	if property := brokerconfig.Find(name); property != nil && !property.Null &&
		property.Default == value {
		return
	}
	altered, err := metadata.AlteredCluster(c.to, metadata.ClusterChange{
		Properties: []metadata.PropertyChange{{Name: name, Value: value}}})
	reason, needless := needlessConfigs[name]
	switch {
	case err == nil:
		c.to = altered
	case needless:
		c.note(path, "%s", reason)
	default:
		c.lost(path, "%s", configReason(name, err))
	}
}

// units contains the configs that set another config in a larger unit. The config in the smallest
// unit takes precedence.
var units = map[string]struct {
	name   string
	factor int64
}{
	"log.retention.hours":   {"log.retention.ms", 3_600_000},
	"log.retention.minutes": {"log.retention.ms", 60_000},
	"log.roll.hours":        {"log.roll.ms", 3_600_000},
	"log.roll.jitter.hours": {"log.roll.jitter.ms", 3_600_000},
}

// needlessConfigs contains configs that do not change what a cluster does.
var needlessConfigs = map[string]string{
	"transaction.state.log.min.isr": "follows from the number of replicas: a majority",
	"inter.broker.protocol.version": "a version of Apache Kafka",
	"log.message.format.version":    "a version of Apache Kafka",
}

// configReason returns the reason why a broker config is not converted.
func configReason(name string, err error) string {
	property := brokerconfig.Find(name)
	switch {
	case property == nil:
		for _, omission := range brokerconfig.Omissions() {
			if omission.Matches(name) {
				return omission.Reason
			}
		}
		return "Heartwood does not know this config"
	case property.Alterable():
		return err.Error()
	case property.Field != "":
		return fmt.Sprintf("see %s of the LogCluster", property.Field)
	}
	return fmt.Sprintf("the value is always %q", property.Default)
}
