(* Theorems 4.5 and 4.6 put together as the claims have them. *)
From mathcomp Require Import all_ssreflect ssralg ssrnum matrix zmodp.
From mathcomp Require Import mathcomp_extra.
From mathcomp Require Import ring.
From mathcomp Require Import boolp reals classical_sets functions topology normedtype derive.
From AttentionSensitivity Require Import Base Words WordsExtra DiffTools LayerNorm LNLip LNProducts.
From AttentionSensitivity Require Import Collected Chain.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Import numFieldNormedType.Exports.
Local Open Scope ring_scope.

Section Depth.
Variables (R : realType) (V : normedModType R).

Theorem theorem_4_5_2_whole (G : nat -> V -> V) l n x (J := pre_jacs G l n x) :
  pre_regular G l n x ->
  (forall h,
     [/\ 'd (run (pre_step G) l n) x h = residual_chain J h,
         residual_chain J h = \sum_(b <- choices n) read_word J b h,
         residual_chain J h = h + \sum_(k < n) pre_jac G l x k h +
           \sum_(b <- choices n | (2 <= count id b)%N) read_word J b h &
         read_word J (nseq n false) h = h]) /\
  count (fun b => (2 <= count id b)%N) (choices n) = (2 ^ n - 1 - n)%N /\
  uniq (map pre_ln_word (choices n)).
Proof.
move=> Gd; split=> [h|].
  have [h1 h2 h3 h4] := pre_expansion h Gd.
  split; [exact: h1 | exact: h2 | | exact: h4].
  by move: h3; rewrite /remainder2 size_pre_jacs.
by split; [exact: count_remainder | have [_ u _] := pre_words n].
Qed.

Theorem theorem_4_6_3_whole (G N : nat -> V -> V) l n x (C := post_jacs G N l n x) :
  post_regular G N l n x ->
  (forall h,
     [/\ 'd (run (post_step G N) l n) x h = \sum_(b <- choices n) read_post_word C b h,
         'd (run (post_step G N) l n) x h = ln_only C h +
           \sum_(b <- choices n | (0 < count id b)%N) read_post_word C b h &
         read_post_word C (nseq n false) h = ln_only C h]) /\
  [/\ size (choices n) = (2 ^ n)%N, uniq (map post_ln_word (choices n)),
      forall b, [seq a <- post_ln_word b | is_ln a] = map inl (iota 0 (size b)),
      forall b, (0 < size b)%N -> post_ln_word b != [::] &
      count (fun b => all is_ln (post_ln_word b)) (choices n) = 1%N].
Proof.
move=> GN; split=> [h|].
  have [h1 h2 h3] := post_expansion_stack h GN.
  split; [exact: etrans h1 h2 | exact: etrans h1 h3 |].
  by rewrite -(size_post_jacs G N l n x) read_ln_only.
have [s u] := post_words n; split; [exact: s | exact: u | exact: every_ln_in_order |
  exact: no_bare_identity | exact: ln_only_word_unique].
Qed.

End Depth.

Section Scaling.
Variables (R : realType) (V : lmodType R).

(* x -> t x as an additive map. *)
Definition scaling (t : R) : {additive V -> V} := [additive of *:%R t].

Lemma residual_scaling t n x : residual_chain (nseq n (scaling t)) x = (1 + t) ^+ n *: x.
Proof.
elim: n x => [|n IH] x; first by rewrite expr0 scale1r.
rewrite [LHS]IH exprS mulrC -scalerA; congr (_ *: _).
by rewrite scalerDl scale1r.
Qed.

End Scaling.

Theorem theorem_4_5_3_whole (R : realType) n :
  [/\ size (choices n) = (2 ^ n)%N,
      count (fun b => pre_ln_word b == [::]) (choices n) = 1%N &
      forall b, size (pre_ln_word b) = count id b] /\
  (forall (V : lmodType R) (J : seq {additive V -> V}) x,
     read_word J (nseq (size J) false) x = x) /\
  (forall (V : lmodType R) (N : V -> R) (t : R) (x : V), is_norm N -> x != 0 -> 0 < t -> t <= 1 ->
     is_opnorm N N (residual_chain (nseq n (scaling V (- t)))) ((1 - t) ^+ n)).
Proof.
have [s _ w] := pre_words n; split.
  by split; [exact: s | exact: one_bare_identity | exact: w].
split=> [V J x|V N t x Nn x0 t0 t1]; first exact: read_no_factor.
have [N0 NZ _] := Nn; have p0 : 0 <= (1 - t) ^+ n by rewrite exprn_ge0 // subr_ge0.
have Nx : 0 < N x by rewrite lt_def (is_norm_ge0 x Nn) andbT; apply: contraNneq x0 => /N0 ->.
apply: (is_opnorm_attained (x := x)) => //.
  by split=> [|y]; rewrite // residual_scaling NZ ger0_norm.
by rewrite residual_scaling NZ ger0_norm.
Qed.

Theorem theorem_4_6_2_whole (R : rcfType) d (gamma y : 'rV[R]_d.+1) eps :
  0 <= eps -> 0 < sigma eps y ->
  [/\ app (ln_jac gamma eps y) (ones d.+1) = 0,
      forall v : 'rV[R]_d.+1, \sum_i v 0 i = 0 ->
        norm2 (app (ln_jac gamma eps y) v) <= ninf gamma / sigma eps y * norm2 v,
      app (ln_jac gamma eps y) (xhat eps y) =
        (rho eps y / sigma eps y) *: hadamard gamma (xhat eps y),
      rho eps y = eps / sigma eps y ^+ 2 /\ (rho eps y < 1 <-> forall a, y <> a *: ones d.+1) &
      forall (N : 'rV[R]_d.+1 -> R) c, 0 < N (ones d.+1) -> (forall v, N (- v) = N v) ->
        opnorm_le N N (fun v => app (ln_jac gamma eps y) v - v) c -> 1 <= c].
Proof.
move=> e0 s0; have [[_ rE _] [aE _ _ lt]] := ln_jac_along_xhat gamma e0 s0.
split; [exact: ln_jac_ones | by move=> v v0; have [_ _ _ h] := ln_jac_centred gamma e0 s0 v0 |
  exact: aE | by split | move=> N c N1 Nopp; exact: ln_jac_far_from_id e0 s0 N1 Nopp].
Qed.

Theorem decay_whole (R : rcfType) L d (gamma : nat -> 'rV[R]_d.+1) (eps : nat -> R)
    (Y : nat -> 'M[R]_(L, d.+1)) n eta (F := seq_product gamma eps Y n) :
  (forall k, 0 <= eps k) -> (forall k i, 0 < sigma (eps k) (row i (Y k))) ->
  0 < eta -> eta < 1 ->
  (forall k, (k < n)%N -> \big[Num.max/0]_i token_factor gamma eps Y k i <= 1 - eta) ->
  opnorm_le (@frob R L d.+1) (@frob R L d.+1) F ((1 - eta) ^+ n) /\
  opnorm_le (@ninfrms R L d.+1) (@ninfrms R L d.+1) F ((1 - eta) ^+ n).
Proof.
move=> e0 s0 eta0 eta1 H; have [h _] := seq_product_geometric e0 s0 eta0 eta1 H.
split; first exact: h.
have p0 : 0 <= (1 - eta) ^+ n by rewrite exprn_ge0 // subr_ge0 ltW.
apply/opnorm_le_rms; split=> // X; apply: ninf2_le => [|i]; first by rewrite mulr_ge0 ?ninf2_ge0.
have [_ blocks] := token_product_le gamma e0 s0 n i.
rewrite /F /seq_product /seq_ln_jac row_fcomp; apply: le_trans (blocks _) _.
apply: ler_pmul; rewrite ?norm2_ge0 ?norm2_row_le //.
  by apply: prodr_ge0 => k _; apply: token_factor_ge0.
apply: (prod_geometric (a := fun k => token_factor gamma eps Y k i)) => k kn.
rewrite token_factor_ge0 //=.
by apply: le_trans (H k kn); exact: (bigmax0_ge (fun i => token_factor gamma eps Y k i)).
Qed.
