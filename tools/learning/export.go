package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"

	"github.com/embedd/embedd/model"
	"github.com/embedd/embedd/tools/learning/streams"
	"github.com/embedd/embedd/tools/learning/trial"
)

// exported is embedd.json: what tools/comparison reads of a run, next to the rows.
type exported struct {
	Stream   string          `json:"stream"`
	About    string          `json:"about"`
	Features int             `json:"features"`
	Every    int             `json:"every"`
	From     int             `json:"from"` // the first row that is measured
	Rows     int             `json:"rows"`
	Accuracy map[int]float64 `json:"accuracy"` // by checkpoint
	Seconds  float64         `json:"seconds"`
	Changes  int             `json:"changes"` // promotions after the first model
}

// export runs streams one after another, and writes their rows, the fresh rows of each checkpoint and the results of
// embedd. The alternatives get each row with its label and all features.
func (o options) export(ctx context.Context, some []streams.Stream) error {
	for _, s := range some {
		if s.HasLateLabels() || s.Missing > 0 {
			return fmt.Errorf("%s: its labels come late, or features are missing, which tools/comparison does not support",
				s.Name)
		}
		for k := range o.seeds {
			seed := o.first + uint64(k)
			r, err := trial.Run(ctx, trial.Config{Stream: s, Seed: seed, Rows: o.rows, Every: o.every, Fit: o.fit()})
			if err != nil {
				return err
			}
			folder := filepath.Join(o.exported, fmt.Sprintf("%s-%d", s.Name, seed))
			if err := os.MkdirAll(folder, 0o777); err != nil {
				return err
			}
			e := exported{Stream: s.Name, About: s.Title + ": " + s.About, Every: o.every, From: measuredFrom(r), Rows: r.Rows,
				Accuracy: map[int]float64{}, Seconds: r.Seconds, Changes: max(0, len(r.Promotions)-1)}
			source, err := s.Open(o.rows, seed)
			if err != nil {
				return err
			}
			all := &model.Data{}
			for range r.Rows / streams.BatchRows {
				all = joined(all, source.Next())
			}
			if err := writeRows(filepath.Join(folder, "rows"), all); err != nil {
				return err
			}
			e.Features = all.M
			for _, c := range r.Checkpoints {
				if c.Row < e.From || !c.HasAll || math.IsNaN(float64(c.Live)) {
					continue
				}
				e.Accuracy[c.Row] = float64(c.Live)
				ref, query := trial.FreshRows(source, seed, c.Row)
				if err := writeRows(filepath.Join(folder, fmt.Sprint("references", c.Row)), ref); err != nil {
					return err
				}
				if err := writeRows(filepath.Join(folder, fmt.Sprint("queries", c.Row)), query); err != nil {
					return err
				}
			}
			text, err := json.MarshalIndent(e, "", " ")
			if err != nil {
				return err
			}
			if err := os.WriteFile(filepath.Join(folder, "embedd.json"), text, 0o666); err != nil {
				return err
			}
			o.say("%s, seed %d: exported", s.Name, seed)
		}
	}
	return nil
}

func joined(a, b *model.Data) *model.Data {
	return &model.Data{X: append(a.X, b.X...), Y: append(a.Y, b.Y...), N: a.N + b.N, M: b.M, Classes: b.Classes}
}

// writeRows writes features as float32 to a file, and classes as int32 to another, both little-endian.
func writeRows(path string, d *model.Data) error {
	var x, y bytes.Buffer
	for _, v := range d.X {
		_ = binary.Write(&x, binary.LittleEndian, float32(v)) // a buffer takes all
	}
	for _, c := range d.Y {
		_ = binary.Write(&y, binary.LittleEndian, int32(c))
	}
	if err := os.WriteFile(path+".f32", x.Bytes(), 0o666); err != nil {
		return err
	}
	return os.WriteFile(path+".i32", y.Bytes(), 0o666)
}
