(* coq-interval's tactics on floating-point numbers made of binary integers, so that no axiom on the
   processor's integers or floats is used. They hold only with a precision, `i_prec`. *)
From Coq Require Import Reals.
From Interval Require Import Specific_ops Specific_stdz.
From Interval Require Tactic.
Module StdZFloat := SpecificFloat StdZRadix2.
Module ZTactic := Tactic.IntervalTactic StdZFloat.
Export Tactic ZTactic.

(* Bounds of a closed expression, or of one in intervals that the context gives. *)
Ltac enclosed := interval with (i_prec 40%positive).
