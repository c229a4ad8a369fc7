package dev

import (
	"path/filepath"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/credentials"
)

// ignored returns a text for each field and annotation in the manifests that has no effect here,
// because it refers to Kubernetes objects.
func (s *state) ignored(dataDir string) (texts []string) {
	if s.secured() {
		listeners := s.listeners()
		for i := range listeners {
			if tls := listeners[i].TLS; tls != nil && (tls.SecretName != "" || tls.IssuerRef != nil) {
				texts = append(texts, "LogCluster/"+s.clusterName()+": listener "+
					listeners[i].Name+": tls.secretName and tls.issuerRef need Kubernetes; the "+
					"listener has a certificate of the CA in "+filepath.Join(dataDir, pkiDir, "ca"))
			}
		}
	}
	texts = append(texts, s.ignoredMoves()...)
	for _, l := range s.listeners() {
		if l.Advertised != nil {
			texts = append(texts, "LogCluster/"+s.clusterName()+": listener "+l.Name+": advertised "+
				"needs Kubernetes; heartwood dev advertises the address of --advertise")
		}
	}
	for _, u := range s.users {
		password := filepath.Join(dataDir, usersDir, u.Name, credentials.KeyPassword)
		if u.Spec.Authentication.PasswordFrom != nil {
			texts = append(texts, "LogUser/"+u.Name+": passwordFrom needs Kubernetes; write the "+
				"password to "+password)
		}
		if u.Annotations[v1alpha1.AnnotationRotate] != "" {
			texts = append(texts, "LogUser/"+u.Name+": the annotation "+v1alpha1.AnnotationRotate+
				" needs Kubernetes; delete "+password+", or user.crt and user.key, for new credentials")
		}
	}
	return texts
}

// ignoredMoves returns texts for fields and annotations that request moves of replicas or configure
// restarts. They have no effect here, because only the operator handles them. spec.cordoned does
// have an effect here.
func (s *state) ignoredMoves() (texts []string) {
	if s.cluster == nil {
		return nil
	}
	const instead = " needs the operator; move replicas with kafka-reassign-partitions"
	name := "LogCluster/" + s.cluster.Name + ": "
	if len(s.cluster.Spec.Drain) > 0 {
		texts = append(texts, name+"spec.drain"+instead+". The brokers get no new replicas")
	}
	if spec := s.cluster.Spec.Rebalance; spec != nil && spec.Policy == v1alpha1.RebalanceContinuous {
		texts = append(texts, name+"spec.rebalance.policy Continuous"+instead)
	}
	if s.cluster.Spec.Rollout != nil {
		texts = append(texts, name+"spec.rollout needs Kubernetes: there are no pods to restart")
	}
	if s.cluster.Annotations[v1alpha1.AnnotationScrubNow] != "" {
		texts = append(texts, name+"the annotation "+v1alpha1.AnnotationScrubNow+
			" needs Kubernetes; run heartwood scrub")
	}
	for _, annotation := range []string{v1alpha1.AnnotationRebalance,
		v1alpha1.AnnotationDrainAnyway} {
		if s.cluster.Annotations[annotation] != "" {
			texts = append(texts, name+"the annotation "+annotation+instead)
		}
	}
	return texts
}

// warnIgnored logs each text that ignored returns once.
func (c *cluster) warnIgnored(s *state) {
	for _, text := range s.ignored(c.opts.DataDir) {
		if !c.warned[text] {
			c.warned[text] = true
			c.opts.Logger.Warn("part of a manifest has no effect in heartwood dev", "manifest", text)
		}
	}
}
