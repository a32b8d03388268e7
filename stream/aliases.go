package stream

import (
	"github.com/embedd/embedd/stream/internal/needs"
	"github.com/embedd/embedd/stream/internal/operations"
	"github.com/embedd/embedd/stream/internal/service"
	"github.com/embedd/embedd/stream/spec"
)

// What hosts use of package spec, which has the rest: the parts of a Report, and the values of enumerations.
type (
	Pipeline      = spec.Pipeline
	Models        = spec.Models
	Stop          = spec.Stop
	Role          = spec.Role
	Standby       = spec.Standby
	WhenStale     = spec.WhenStale
	State         = spec.State
	Status        = spec.Status
	Report        = spec.Report
	ReportModel   = spec.ReportModel
	Lag           = spec.Lag
	Learning      = spec.Learning
	SchemaCount   = spec.SchemaCount
	Undeliverable = spec.Undeliverable
	Condition     = spec.Condition
	Setting       = spec.Setting
	Change        = spec.Change
	Effect        = spec.Effect
)

// What can be requested of a pipeline, by Engine.Do and to the endpoints of its service, and what they answer.
type (
	Endpoint   = operations.Endpoint // Name, Method, Path, Request, About, IsForAll, IsMessage
	Request    = operations.Request  // Version, Live, Limit, Numbers, By; Data, Input and Output of transform
	Message    = operations.Message  // an answer with its headers: Data, Format, Pairs, Model
	Messages   = operations.Messages // of a pipeline: Limit in bytes; Input and Output, their formats
	Points     = operations.Points   // the answer of the endpoint points
	PointModel = operations.PointModel
)

// The roles, the kinds of standby, and what follows when the live model is stale.
const (
	RoleAll       = spec.RoleAll
	RoleTransform = spec.RoleTransform
	RoleTrain     = spec.RoleTrain
	StandbyWarm   = spec.StandbyWarm
	StandbyCold   = spec.StandbyCold
	StaleServe    = spec.StaleServe
	StaleHold     = spec.StaleHold
	StalePass     = spec.StalePass
)

// The states of a pipeline.
const (
	StateStarting        = spec.StateStarting
	StateStopping        = spec.StateStopping
	StateHalted          = spec.StateHalted
	StateBlocked         = spec.StateBlocked
	StateWaitingForModel = spec.StateWaitingForModel
	StateStale           = spec.StateStale
	StateParked          = spec.StateParked
	StateDegraded        = spec.StateDegraded
	StateLearning        = spec.StateLearning
	StateIdle            = spec.StateIdle
	StateReady           = spec.StateReady
)

// What becomes of a changed key of the configuration.
const (
	EffectApplied     = spec.EffectApplied
	EffectModelReset  = spec.EffectModelReset
	EffectSchemaReset = spec.EffectSchemaReset
)

// The errors that a host reacts to.
var (
	ErrStreamMissing = spec.ErrStreamMissing
	ErrNoJetStream   = spec.ErrNoJetStream
	ErrConsumerTaken = spec.ErrConsumerTaken
	ErrDenied        = spec.ErrDenied
	ErrDrain         = spec.ErrDrain
)

// Codes of errors of a pipeline's service, in addition to those of messages in package wire.
const (
	CodeBadRequest   = operations.CodeBadRequest
	CodeNoModel      = operations.CodeNoModel
	CodeNoConversion = operations.CodeNoConversion
	CodeStale        = operations.CodeStale
	CodePinned       = operations.CodePinned
	CodeNotPinned    = operations.CodeNotPinned
	CodeFewRows      = operations.CodeFewRows
	CodeFixed        = operations.CodeFixed
	CodeConflict     = operations.CodeConflict
	CodeStopping     = operations.CodeStopping
	CodeNoAnswer     = operations.CodeNoAnswer
	CodeNotStored    = operations.CodeNotStored
	CodeDamaged      = operations.CodeDamaged
	CodeDenied       = operations.CodeDenied
)

// ServicePipeline is the key of a service's metadata whose value is the name of its pipeline.
const ServicePipeline = service.MetadataPipeline

// ServiceName is the name of the service of a pipeline.
func ServiceName(pipeline string) string { return needs.ServiceName(pipeline) }

// ServiceSubject is the subject of an endpoint, which has the name of a verb of the command line: status, model ls.
func ServiceSubject(pipeline, endpoint string) string {
	return needs.ServiceSubject(pipeline, endpoint)
}
