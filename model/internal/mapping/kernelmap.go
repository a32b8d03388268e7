package mapping

import (
	"fmt"

	"github.com/embedd/embedd/model/internal/fail"
)

// KernelMap is y(x) = offset + sum_i a_i k(x, x_i) over rows x_i of the fit, in scaled coordinates.
type KernelMap struct {
	D            int
	Rows         []float64 // n x m
	Coefficients []float64 // a, n x d
	Offset       []float64 // d; nil: none
	K            Kernel
	Tables       *Gauss // of Rows and K, shared by models of the same rows; nil: the map makes them
}

func (k *KernelMap) Kind() string { return "kernel" }

func (k *KernelMap) Dim() int { return k.D }

func (k *KernelMap) Check(m, _ int) error {
	if err := checkRows(k.Rows, m, "coefficients", k.Coefficients, k.D); err != nil {
		return err
	}
	if k.Offset != nil && len(k.Offset) != k.D {
		return fmt.Errorf("%d numbers in offset, %d are needed", len(k.Offset), k.D)
	}
	return k.K.Check(m)
}

func (k *KernelMap) Arrays() []Array {
	n := len(k.Coefficients) / k.D
	a := []Array{
		{"rows", []int{n, len(k.Rows) / n}, k.Rows},
		{"coefficients", []int{n, k.D}, k.Coefficients},
	}
	if k.Offset != nil {
		a = append(a, Array{"offset", []int{k.D}, k.Offset})
	}
	return append(a, k.K.Arrays()...)
}

func rebuildKernelMap(arrays []Array) Map {
	if !named(arrays, []string{"rows", "coefficients"}, []int{2, 2}) {
		panic(fail.With(fmt.Errorf("a kernel map starts with the arrays rows (n x m) and coefficients (n x d)")))
	}
	m, rest := &KernelMap{D: arrays[1].Shape[1], Rows: arrays[0].Data, Coefficients: arrays[1].Data}, arrays[2:]
	if named(rest, []string{"offset"}, []int{1}) {
		m.Offset, rest = rest[0].Data, rest[1:]
	}
	m.K = rebuildKernel(rest)
	return m
}

func (k *KernelMap) Extension(m int) (Extension, error) {
	if k.K.Name == "gauss" && k.K.Origin == nil {
		return newGaussExtension(k, m), nil
	}
	return &kernelExtension{k, k.K.Ready(k.Rows, m), m}, nil
}

type kernelExtension struct {
	*KernelMap
	Ready *readyKernel
	m     int
}

func (p *kernelExtension) Cost() int { return len(p.Rows) / p.m }

func (p *kernelExtension) Workspace() *Workspace { return &Workspace{Row: make([]float64, p.m)} }

func (p *kernelExtension) AtOnce() int { return Together }

// Project projects one row after the other.
func (p *kernelExtension) Project(dst, z []float64, n int, w *Workspace) (int, error) {
	for r := range n {
		p.place(dst[r*p.D:(r+1)*p.D], z[r*p.m:(r+1)*p.m], w)
	}
	return n, nil
}

func (p *kernelExtension) place(dst, z []float64, w *Workspace) {
	if clear(dst); p.Offset != nil {
		copy(dst, p.Offset)
	}
	norm := p.Ready.Take(w.Row, z)
	for i := range p.Cost() {
		v := p.Ready.At(w.Row, norm, i)
		for c, a := range p.Coefficients[i*p.D : (i+1)*p.D] {
			dst[c] += v * a
		}
	}
}
