package v1alpha1

// Annotations that a broker writes on its Lease.
const (
	// AnnotationDirectory, on a broker's Lease, is the directory id of the broker's disk. A broker
	// with a new disk has lost its records; an election must not treat it as if it still had them.
	AnnotationDirectory = "heartwood.dev/directory-id"
	// AnnotationEndpoint, on a broker's Lease, is the host:port of the broker's Kafka listener, as
	// advertised to clients.
	AnnotationEndpoint = "heartwood.dev/endpoint"
	// AnnotationPeer, on a broker's Lease, is the host:port at which other brokers connect to the
	// broker. The host is the IP of the broker's pod, so that replication does not depend on DNS.
	// Without this annotation, other brokers use AnnotationEndpoint.
	AnnotationPeer = "heartwood.dev/peer"
	// AnnotationPeerTLS, on a broker's Lease, is "true" if the broker serves mutual TLS at the
	// address in AnnotationPeer, and TLS at its HTTP port. While it is missing on some broker, as in
	// earlier versions, the others accept followers without TLS at this address too.
	AnnotationPeerTLS = "heartwood.dev/peer-tls"
	// AnnotationCleanEpoch, on a broker's Lease, is the broker epoch of the broker's previous
	// process, if that process stopped gracefully. The present process then has every record that
	// the previous one had. The annotation is absent after an unclean stop.
	AnnotationCleanEpoch = "heartwood.dev/clean-epoch"
	// AnnotationProducerIDs, on a broker's Lease, is an upper bound of the producer ids that the
	// broker has assigned, with this disk or an earlier one. A broker with a new disk assigns only
	// ids above this bound.
	AnnotationProducerIDs = "heartwood.dev/producer-ids"
	// AnnotationLeaving, on a broker's Lease, announces the controlled shutdown of the broker: it
	// must not be elected leader. The value is the broker epoch that shuts down; in another broker
	// epoch the annotation has no effect.
	AnnotationLeaving = "heartwood.dev/leaving"
	// AnnotationUnreachable, on a broker's Lease, contains the other brokers that the broker does
	// not reach, such as "0:5,2:7": ids and broker epochs. It is absent if there are none.
	AnnotationUnreachable = "heartwood.dev/unreachable"
	// AnnotationTransactionVersion, on a broker's Lease, is the highest transaction version
	// (KIP-890) that the broker supports. Without it the broker supports version 0 only. The
	// cluster uses the highest version that all brokers support.
	AnnotationTransactionVersion = "heartwood.dev/transaction-version"
	// AnnotationVersion, on a broker's Lease, is the version of Heartwood that the broker runs.
	AnnotationVersion = "heartwood.dev/version"
	// AnnotationFormatLevel, on a broker's Lease, is the highest format level that the broker
	// supports. Without it the broker supports level 1 only.
	AnnotationFormatLevel = "heartwood.dev/format-level"
	// AnnotationPod, on a broker's Lease, is the uid of the pod in which the broker runs. When this
	// pod ends, the broker epoch has ended.
	AnnotationPod = "heartwood.dev/pod-uid"
	// AnnotationTrust, on a broker's Lease, is the TrustFingerprint of Secret BrokersTLSSecretName
	// that the broker uses. A new CA of brokers or users issues certificates only after all brokers
	// have reported it.
	AnnotationTrust = "heartwood.dev/trust"
	// AnnotationFoundDirectory, on a broker's Lease, is the directory id of a volume that the broker
	// has found in place of the one in AnnotationDirectory. The broker does not serve until
	// AnnotationVolumeConsent permits it to use this volume.
	AnnotationFoundDirectory = "heartwood.dev/found-directory-id"
	// AnnotationVolume, on a broker's Lease, is the BrokerVolume of the broker as JSON.
	AnnotationVolume = "heartwood.dev/volume"
)
