(* Definition 2.1, parts 1 and 2: Lipschitz constants as suprema, and the end-to-end sensitivity of
   a stack of layers, whose value depends on the norm. Section 2.1: LayerNorm acts on each token by
   itself. *)
From mathcomp Require Import all_ssreflect ssralg ssrnum matrix zmodp.
From mathcomp Require Import mathcomp_extra boolp reals classical_sets functions topology.
From mathcomp Require Import normedtype derive.
From AttentionSensitivity Require Import Base Geometry Transfer DiffTools LayerNorm LNLip.
From AttentionSensitivity Require Import LNProducts OpNorm MHA Attention Collected Layers Chain.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Import numFieldNormedType.Exports.
Local Open Scope ring_scope.

(* Part 1. *)
Section Lipschitz.
Variables (R : realType) (V W : lmodType R) (N : V -> R) (M : W -> R).
Implicit Types (D : V -> Prop) (f : V -> W) (C : R).

(* The quotients at distinct points of D. *)
Definition quotients D f : set R :=
  [set M (f z.1 - f z.2) / N (z.1 - z.2) | z in [set z | D z.1 /\ D z.2 /\ z.1 <> z.2]].

(* Lip(f; D): their supremum, which is 0 where there are none. *)
Definition lip_sup D f : R := sup (quotients D f).

Hypotheses (NN : is_norm N) (MM : is_norm M).

Lemma norm_at_0 : M 0 = 0.
Proof. by have [_ MZ _] := MM; rewrite -(scale0r 0) MZ normr0 mul0r. Qed.

Lemma norm_gt0 x y : x <> y -> 0 < N (x - y).
Proof.
move=> xy; have [N0 _ _] := NN; rewrite lt_def (is_norm_ge0 _ NN) andbT.
by apply/eqP => /N0 /eqP; rewrite subr_eq0 => /eqP.
Qed.

(* A Lipschitz constant is a nonnegative upper bound of the quotients. *)
Lemma quotients_bound D f C :
  lipschitz_on D N M f C <-> 0 <= C /\ ubound (quotients D f) C.
Proof.
split=> -[C0 H]; split=> //.
  move=> _ [[x y] [/= Dx [Dy xy]] <-].
  by rewrite ler_pdivr_mulr ?norm_gt0 //; exact: H.
move=> x y Dx Dy; have [->|/eqP xy] := eqVneq x y.
  by rewrite !subrr norm_at_0 mulr_ge0 ?(is_norm_ge0 _ NN).
by rewrite -ler_pdivr_mulr ?norm_gt0 //; apply: H; exists (x, y).
Qed.

(* There is one exactly where the quotients are bounded, ... *)
Theorem lip_finite D f : (exists C, lipschitz_on D N M f C) <-> has_ubound (quotients D f).
Proof.
split=> [[C /quotients_bound[_ ub]]|[C ub]]; first by exists C.
exists (Num.max 0 C); apply/quotients_bound; split; first by rewrite le_maxr lexx.
by move=> q /ub qC; rewrite le_maxr qC orbT.
Qed.

(* ... and then their supremum is the least one. *)
Theorem lip_least D f C : lipschitz_on D N M f C -> is_lipschitz D N M f (lip_sup D f).
Proof.
move=> /quotients_bound[C0 ub]; have [[q0 q0q]|no] := pselect (quotients D f !=set0)%classic.
  have hs : has_sup (quotients D f) by split; [exists q0 | exists C].
  split=> [|c /quotients_bound[_ cub]]; last by apply: sup_le_ub => //; exists q0.
  apply/quotients_bound; split; last exact: sup_upper_bound.
  apply: (@le_trans _ _ q0); last exact: (sup_upper_bound hs).
  have [[x y] [_ [_ xy]] <-] := q0q.
  by rewrite divr_ge0 ?(is_norm_ge0 _ MM) ?(is_norm_ge0 _ NN).
have e : quotients D f = set0.
  by rewrite predeqE => q; split=> // qq; case: no; exists q.
rewrite /lip_sup e sup0; split=> [|c [c0 _] //]; apply/quotients_bound; rewrite e.
by split=> // q [].
Qed.

(* Affine maps on the whole space. *)
Lemma affine_lipschitz (T : {linear V -> W}) (b : W) C :
  lipschitz_on (@everywhere _) N M (fun x => T x + b) C <-> opnorm_le N M T C.
Proof.
have dE x y : T x + b - (T y + b) = T (x - y) by rewrite opprD addrACA subrr addr0 linearB.
split=> -[C0 H]; split=> //; last by move=> x y _ _; rewrite dE.
by move=> x; have := H x 0 I I; rewrite dE subr0.
Qed.

Theorem affine_lip (T : {linear V -> W}) (b : W) C : opnorm_le N M T C ->
  is_opnorm N M T (opnorm N M T) /\ lip_sup (@everywhere _) (fun x => T x + b) = opnorm N M T.
Proof.
move=> TC; have [_ NZ _] := NN; have [_ MZ _] := MM.
have N0 x := is_norm_ge0 x NN; have M0 x := is_norm_ge0 x MM.
have TZ (a : R) x : T (a *: x) = a *: T x by exact: linearZ.
have [op least] := opnorm_is_opnorm N0 NZ M0 MZ TZ TC; split=> //.
have [l1 l2] := lip_least ((affine_lipschitz T b C).2 TC); apply/eqP; rewrite eq_le.
by rewrite l2 ?least //; [apply/(affine_lipschitz T b) | apply/(affine_lipschitz T b)].
Qed.

End Lipschitz.

(* Part 2. *)
Section Sensitivity.
Variables (R : realType) (V : normedModType R).
Implicit Types (f : nat -> V -> V) (x : V).

(* The Jacobian of layer l + k at the state that it sees. *)
Definition layer_jac f l x k : V -> V := 'd (f (l + k)%N) (run f l k x).

(* The chain rule: the ordered product, the first layer's Jacobian applied first. *)
Theorem run_chain_rule f l n x :
  (forall k, (k < n)%N -> differentiable (f (l + k)%N) (run f l k x)) ->
  is_diff x (run f l n) (fcomp (layer_jac f l x) n).
Proof.
elim: n => [|n IH] reg; first exact: is_diff_id.
have inner := IH (fun k kn => reg k (ltnW kn)).
apply: is_diff_ext (is_diff_comp inner (differentiableP (reg n (leqnn _)))) => y //.
by rewrite run_last.
Qed.

Lemma fcomp_le (N : V -> R) (J : nat -> V -> V) (c : nat -> R) n :
  (forall k, (k < n)%N -> opnorm_le N N (J k) (c k)) ->
  opnorm_le N N (fcomp J n) (\prod_(k < n) c k).
Proof.
elim: n => [_|n IH H] /=; first by rewrite big_ord0; split=> [|y]; rewrite ?ler01 ?mul1r.
have [c0 Jn] := H n (leqnn _); have [p0 P] := IH (fun k kn => H k (ltnW kn)).
rewrite big_ord_recr /= mulrC; split=> [|y]; first exact: mulr_ge0.
by apply: le_trans (Jn _) _; rewrite -mulrA ler_wpmul2l.
Qed.

(* The sensitivity in any norm in which the layers' Jacobians are bounded: it exists, and it is at
   most the product of the layers' norms. *)
Theorem sensitivity_le f l n x (N : V -> R) (F := run f l n) : is_norm N ->
  (forall k, (k < n)%N -> differentiable (f (l + k)%N) (run f l k x)) ->
  (forall k, (k < n)%N -> exists c, opnorm_le N N (layer_jac f l x k) c) ->
  is_opnorm N N ('d F x) (opnorm N N ('d F x)) /\
  opnorm N N ('d F x) <= \prod_(k < n) opnorm N N (layer_jac f l x k).
Proof.
move=> NN reg bnd; have [_ NZ _] := NN; have N0 y := is_norm_ge0 y NN.
have ex k : (k < n)%N ->
    is_opnorm N N (layer_jac f l x k) (opnorm N N (layer_jac f l x k)).
  move=> kn; have [c cb] := bnd k kn; apply: opnorm_is_opnorm cb => // a y.
  exact: linearZ.
have le : opnorm_le N N ('d F x) (\prod_(k < n) opnorm N N (layer_jac f l x k)).
  rewrite (@diff_val _ _ _ _ _ _ _ (run_chain_rule reg)).
  apply: (fcomp_le (c := fun k => opnorm N N (layer_jac f l x k))) => k kn.
  by case: (ex k kn).
have dZ (a : R) y : 'd F x (a *: y) = a *: 'd F x y by exact: linearZ.
have op := opnorm_is_opnorm N0 NZ N0 NZ dZ le.
by split=> //; case: op => _; exact.
Qed.

End Sensitivity.

(* A linear map of states is bounded in both norms. *)
Theorem states_bounded (R : realType) L d
    (T : {linear 'M[R]_(L.+1, d.+1) -> 'M[R]_(L.+1, d.+1)}) :
  (exists c, opnorm_le (@frob R L.+1 d.+1) (@frob R L.+1 d.+1) T c) /\
  (exists c, opnorm_le (@ninfrms R L.+1 d.+1) (@ninfrms R L.+1 d.+1) T c).
Proof.
pose c := \sum_i \sum_j frob (T (delta_mx i j)).
have c0 : 0 <= c by do 2![apply: sumr_ge0 => ? _]; exact: frob_ge0.
have frobZ a (X : 'M[R]_(L.+1, d.+1)) : frob (a *: X) = `|a| * frob X.
  rewrite /frob -sqrtr_sqr -sqrtrM ?sqr_ge0 //; congr Num.sqrt; rewrite mulr_sumr.
  by apply: eq_bigr => i _; rewrite mulr_sumr; apply: eq_bigr => j _; rewrite mxE exprMn.
have frob_mxvec (X : 'M[R]_(L.+1, d.+1)) : frob X = norm2 (mxvec X).
  rewrite /frob /norm2; congr Num.sqrt; rewrite /dot (reindex _ (curry_mxvec_bij _ _)) /=.
  by rewrite pair_bigA; apply: eq_bigr => -[i j] _ /=; rewrite mxvecE expr2.
have frob_sum (I : finType) (F : I -> 'M[R]_(L.+1, d.+1)) :
    frob (\sum_i F i) <= \sum_i frob (F i).
  rewrite frob_mxvec linear_sum; apply: le_trans (norm2_sum _ _) _.
  by apply: ler_sum => i _; rewrite frob_mxvec.
have fr : opnorm_le (@frob R L.+1 d.+1) (@frob R L.+1 d.+1) T c.
  split=> // X; have XE : X = \sum_i \sum_j X i j *: delta_mx i j by exact: matrix_sum_delta.
  rewrite {1}XE linear_sum /= mulr_suml; apply: le_trans (frob_sum _ _) _.
  apply: ler_sum => i _; rewrite linear_sum /= mulr_suml; apply: le_trans (frob_sum _ _) _.
  apply: ler_sum => j _; rewrite linearZ /= frobZ mulrC; apply: ler_wpmul2l; first exact: frob_ge0.
  apply: le_trans (ninf2_le_frob X); apply: le_trans (norm2_row_le X i).
  rewrite -ler_sqr ?nnegrE ?norm2_ge0 // norm2_sqr real_normK ?num_real //.
  rewrite /dot (bigD1 j) //= !mxE -expr2 ler_addl sumr_ge0 // => k _.
  by rewrite -expr2 sqr_ge0.
split; first by exists c.
by exists (Num.sqrt L.+1%:R * c); exact: transfer_to_ninfrms.
Qed.

(* Attention to a single key. *)
Section SingleKey.
Variables (R : realType) (L d k n : nat) (key : 'I_L.+1).
Variables (WQ WK : 'M[R]_(d.+1, k)) (WV : 'M[R]_(d.+1, n)) (WO : 'M[R]_(n, d.+1)) (tau : R).
Local Notation state := 'M[R]_(L.+1, d.+1).
Hypothesis VO : WV *m WO = 1%:M.

Definition single_key : state -> state := mha (fun _ : 'I_1 => WQ) (fun _ => WK) (fun _ => WV)
  (fun _ => WO) tau (fun _ j => j == key).

Lemma single_keyE (X : state) : single_key X = \matrix_i row key X.
Proof.
rewrite /single_key /mha big_ord1 -mulmxA -mulmxA VO mulmx1; set A := attention _ _ _ _ _ _.
have AE i j : A i j = (j == key)%:R.
  rewrite /A mxE (bigD1 key) //= big1 => [|l /negbTE lk]; last by rewrite lk mul0r.
  rewrite addr0 eqxx mul1r; have [->|_] := eqVneq j key; last by rewrite !mul0r.
  by rewrite mul1r divff // gt_eqF // exp.expR_gt0.
apply/row_matrixP => i; rewrite row_mix rowK (bigD1 key) //= big1 => [|j /negbTE jk].
  by rewrite addr0 mxE AE eqxx scale1r.
by rewrite mxE AE jk scale0r.
Qed.

(* A stack of them has sensitivity 1 in block-infinity/RMS and sqrt(L) in Frobenius. *)
Theorem single_key_sensitivity l m (X : state) (F := run (fun _ => single_key) l m.+1) :
  [/\ differentiable F X, forall Y, 'd F X Y = \matrix_i row key Y,
      is_opnorm (@ninfrms R L.+1 d.+1) (@ninfrms R L.+1 d.+1) ('d F X) 1 &
      is_opnorm (@frob R L.+1 d.+1) (@frob R L.+1 d.+1) ('d F X) (Num.sqrt L.+1%:R)].
Proof.
pose A : 'M[R]_L.+1 := \matrix_(i, j) (j == key)%:R.
have Akey i j : A i j = (j == key)%:R by rewrite mxE.
have AE (Y : state) : A *m Y = \matrix_i row key Y.
  apply/row_matrixP => i; rewrite row_mix rowK (bigD1 key) //= big1 => [|j /negbTE jk].
    by rewrite addr0 !mxE eqxx scale1r.
  by rewrite !mxE jk scale0r.
have runE : F =1 single_key.
  rewrite /F => Y; elim: m l Y {F} => [//|m IH] l Y; rewrite -[LHS]/(run _ l.+1 m.+1 _) IH.
  by rewrite !single_keyE; apply/row_matrixP => i; rewrite !rowK.
have some_visible i : exists j, (fun _ j => j == key) (i : 'I_L.+1) j by exists key.
have lin : is_diff X F (mulmx A).
  have dA : is_diffm X (mulmx A) (mulmx A).
    move=> i j; apply: is_diff_ext (is_diffm_mul (is_diffm_cst A X) (is_diffm_id X) i j) => // Y.
    by rewrite mul0mx addr0.
  by apply: is_diff_ext (is_diffm_matrix dA) => // Y; rewrite runE single_keyE AE.
have dE : 'd F X = mulmx A :> (_ -> _) by exact: (@diff_val _ _ _ _ _ _ _ lin).
have [sA _ fr] := sink_norm d Akey; split.
- by case: lin.
- by move=> Y; rewrite -AE -dE.
- rewrite dE; apply: (is_opnorm_attained (x := constant L (ones d.+1))).
  + split=> [|Y]; rewrite ?ler01 // mul1r; exact: attention_nonexpansive.
  + rewrite ninfrmsE ninf2_constant divr_gt0 ?sqrt_natr_gt0 //.
    by rewrite /norm2 dot_1_1 sqrtr_gt0 ltr0n.
  + rewrite mul1r AE; congr ninfrms; apply/row_matrixP => i; by rewrite !rowK.
- by rewrite dE.
Qed.

End SingleKey.

(* Section 2.1: LayerNorm, token by token. *)
Section Tokens.
Variables (R : realType) (L d : nat) (gamma beta : 'rV[R]_d.+1) (eps : R).
Local Notation state := 'M[R]_(L.+1, d.+1).
Local Notation LN := (@tokenwise R L.+1 _ _ (ln gamma beta eps)).

(* Constant along a direction: the derivative is 0. *)
Lemma derive_constant (f : state -> R) (X H : state) :
  (forall t : R, f (t *: H + X) = f X) -> is_derive X H f 0.
Proof.
move=> fc; have e : (fun t : R => t^-1 *: ((f \o shift X) (t *: H) - f X)) = fun=> 0.
  by apply/funext => t /=; rewrite fc subrr scaler0.
split; first by rewrite /derivable e; exact: is_cvg_cst.
by rewrite /derive e; exact: lim_cst.
Qed.

Theorem ln_no_other_token (X H : state) i j : row i H = 0 ->
  is_derive X H (fun Y => LN Y i j) 0.
Proof.
move=> H0; apply: derive_constant => t.
by rewrite [LHS]mxE [RHS]mxE linearD linearZ /= H0 scaler0 add0r.
Qed.

End Tokens.
