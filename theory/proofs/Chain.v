(* Gradient flow through depth (Theorems 4.5 and 4.6) for the true derivative of a stack of any
   depth: the chain rule gives the ordered product, Words.v expands it. *)
From mathcomp Require Import all_ssreflect ssralg ssrnum matrix zmodp.
From mathcomp Require Import mathcomp_extra.
From mathcomp Require Import boolp reals classical_sets functions topology normedtype derive.
From AttentionSensitivity Require Import Base Words DiffTools.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Import numFieldNormedType.Exports.
Local Open Scope ring_scope.

Section Stacks.
Variables (R : realType) (V : normedModType R).
Implicit Types (f g N : nat -> V -> V) (x : V).

(* Layers l, l+1, ..., l+n-1 of f, the earliest first. The state before layer l+k of a run that
   starts at x is `run f l k x`. *)
Fixpoint run f l n x := if n is n'.+1 then run f l.+1 n' (f l x) else x.

Lemma run_last f l n x : run f l n.+1 x = f (l + n)%N (run f l n x).
Proof.
elim: n l x => [|n IH] l x; first by rewrite addn0.
by rewrite [LHS]IH addSnnS.
Qed.

(* Pre-LN: x + g x, where g is a branch with its LayerNorm inside. J_k is the branch's Jacobian at
   the state that it sees. *)
Definition pre_step g k x := x + g k x.

Definition pre_jac g l x k : {additive V -> V} := 'd (g (l + k)%N) (run (pre_step g) l k x).

Definition pre_jacs g l n x := [seq pre_jac g l x k | k <- iota 0 n].

Lemma size_pre_jacs g l n x : size (pre_jacs g l n x) = n.
Proof. by rewrite size_map size_iota. Qed.

Lemma pre_jacsS g l n x :
  pre_jacs g l n.+1 x = pre_jac g l x 0 :: pre_jacs g l.+1 n (pre_step g l x).
Proof.
rewrite /pre_jacs /= -[1%N]addn0 iotaDl -map_comp; congr (_ :: _); apply: eq_map => k /=.
by rewrite /pre_jac add1n /= addSnnS.
Qed.

(* The branches are differentiable at the states that they see. *)
Definition pre_regular g l n x :=
  forall k, (k < n)%N -> differentiable (g (l + k)%N) (run (pre_step g) l k x).

Lemma pre_regularS g l n x : pre_regular g l n.+1 x ->
  differentiable (g l) x /\ pre_regular g l.+1 n (pre_step g l x).
Proof.
move=> gd; split; first by have := gd 0%N isT; rewrite addn0.
by move=> k kn; have := gd k.+1 kn; rewrite -addSnnS.
Qed.

(* The chain rule. *)
Theorem pre_chain_rule g l n x : pre_regular g l n x ->
  is_diff x (run (pre_step g) l n) (residual_chain (pre_jacs g l n x)).
Proof.
elim: n l x => [|n IH] l x; first by move=> _; exact: is_diff_id.
move=> /pre_regularS[gd rest]; rewrite pre_jacsS.
have step : is_diff x (pre_step g l) (fun h => h + pre_jac g l x 0 h).
  rewrite /pre_jac addn0.
  apply: is_diff_ext (is_diffD (is_diff_id x) (differentiableP gd)) => //.
exact: is_diff_comp step (IH l.+1 (pre_step g l x) rest).
Qed.

(* Post-LN: N (x + g x). *)
Definition post_step g N k x := N k (x + g k x).

(* The Jacobians of layer l+k: of its LayerNorm at Y_k = X_k + g X_k, and of its branch at X_k. *)
Definition post_jac g N l x k : {additive V -> V} * {additive V -> V} :=
  let y := run (post_step g N) l k x in
  ('d (N (l + k)%N) (y + g (l + k)%N y) : {additive V -> V},
   'd (g (l + k)%N) y : {additive V -> V}).

Definition post_jacs g N l n x := [seq post_jac g N l x k | k <- iota 0 n].

Lemma size_post_jacs g N l n x : size (post_jacs g N l n x) = n.
Proof. by rewrite size_map size_iota. Qed.

Lemma post_jacsS g N l n x :
  post_jacs g N l n.+1 x = post_jac g N l x 0 :: post_jacs g N l.+1 n (post_step g N l x).
Proof.
rewrite /post_jacs /= -[1%N]addn0 iotaDl -map_comp; congr (_ :: _); apply: eq_map => k /=.
by rewrite /post_jac add1n /= addSnnS.
Qed.

(* The branches are differentiable at X_k and the LayerNorms at Y_k. *)
Definition post_regular g N l n x := forall k, (k < n)%N ->
  let y := run (post_step g N) l k x in
  differentiable (g (l + k)%N) y /\ differentiable (N (l + k)%N) (y + g (l + k)%N y).

Lemma post_regularS g N l n x : post_regular g N l n.+1 x ->
  [/\ differentiable (g l) x, differentiable (N l) (x + g l x) &
      post_regular g N l.+1 n (post_step g N l x)].
Proof.
move=> gN; have := gN 0%N isT; rewrite /= addn0 => -[gd Nd]; split=> // k kn.
by have := gN k.+1 kn; rewrite -addSnnS.
Qed.

Theorem post_chain_rule g N l n x : post_regular g N l n x ->
  is_diff x (run (post_step g N) l n) (post_chain (post_jacs g N l n x)).
Proof.
elim: n l x => [|n IH] l x; first by move=> _; exact: is_diff_id.
move=> /post_regularS[gd Nd rest]; rewrite post_jacsS.
have inner : is_diff x (fun y => y + g l y) (fun h => h + (post_jac g N l x 0).2 h).
  rewrite /post_jac addn0 /=.
  by apply: is_diff_ext (is_diffD (is_diff_id x) (differentiableP gd)).
have step : is_diff x (post_step g N l)
    (fun h => (post_jac g N l x 0).1 (h + (post_jac g N l x 0).2 h)).
  move: inner; rewrite /post_jac addn0 /= => inner.
  by apply: is_diff_ext (is_diff_comp inner (differentiableP Nd)).
exact: is_diff_comp step (IH l.+1 (post_step g N l x) rest).
Qed.

(* Theorem 4.5(2) and (3) for the derivative itself. *)
Theorem pre_expansion g l n x h (J := pre_jacs g l n x) : pre_regular g l n x ->
  [/\ 'd (run (pre_step g) l n) x h = residual_chain J h,
      residual_chain J h = \sum_(b <- choices n) read_word J b h,
      residual_chain J h = h + \sum_(k < n) pre_jac g l x k h + remainder2 J h &
      read_word J (nseq n false) h = h].
Proof.
move=> gd; split.
- by rewrite (@diff_val _ _ _ _ _ _ _ (pre_chain_rule gd)).
- by rewrite residual_expansion size_pre_jacs.
- rewrite residual_identity_linear_rest /J; congr (_ + _ + _).
  by rewrite big_map /= -[X in iota 0 X]subn0 -/(index_iota 0 n) big_mkord.
- by rewrite -(size_pre_jacs g l n x) read_no_factor.
Qed.

(* Theorem 4.6(1) and (3) for the derivative itself. *)
Theorem post_expansion_stack g N l n x h (C := post_jacs g N l n x) : post_regular g N l n x ->
  [/\ 'd (run (post_step g N) l n) x h = post_chain C h,
      post_chain C h = \sum_(b <- choices n) read_post_word C b h &
      post_chain C h = ln_only C h +
        \sum_(b <- choices n | (0 < count id b)%N) read_post_word C b h].
Proof.
move=> gN; split.
- by rewrite (@diff_val _ _ _ _ _ _ _ (post_chain_rule gN)).
- by rewrite post_expansion size_post_jacs.
- by rewrite post_ln_only_and_rest size_post_jacs.
Qed.

End Stacks.
