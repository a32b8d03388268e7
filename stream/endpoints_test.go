package stream_test

import (
	"encoding/json"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nats.go/micro"

	"github.com/embedd/embedd/internal/natstest"
	"github.com/embedd/embedd/stream/internal/needs"
)

// TestEndpointsHaveRoles: a role may request each endpoint of a pipeline, and no role one that there is not.
func TestEndpointsHaveRoles(t *testing.T) {
	t.Parallel()
	s := natstest.New(t)
	s.Stream(jetstream.StreamConfig{Name: "in", Subjects: []string{"in.>", "out.>", "dead.>"}})
	p := basicPipeline()
	p.Stage.Fixed = fixedModel(t)
	startReplica(t, s.Connect(), p)
	about := "$SRV.INFO." + needs.ServiceName(p.Name)
	s.AwaitSubscriber(about)
	msg, err := s.Connect().Request(about, nil, natstest.Timeout)
	if err != nil {
		t.Fatal(err)
	}
	var info micro.Info
	if err := json.Unmarshal(msg.Data, &info); err != nil {
		t.Fatal(err)
	}
	served := map[string]bool{}
	for _, e := range info.Endpoints {
		served[e.Subject] = true
	}
	for endpoint, role := range needs.EndpointRoles {
		subject := needs.ServiceSubject(p.Name, endpoint)
		if !served[subject] && endpoint != "reload" { // which only a host with a configuration file serves
			t.Errorf("role %s may request %s, which is not served", role, subject)
		}
		delete(served, subject)
	}
	for subject := range served {
		t.Errorf("%s has no role", subject)
	}
}
